"""The expression language of templates: parsing and evaluation.

``"[concat('web-', parameters('n'))]"`` is an expression because it is a string in brackets. It is parsed into
a tree before anything is evaluated. A template can therefore be searched for function calls, and ``if``
evaluates only the branch it takes. The functions themselves are in ``functions.py`` and ``context.py``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Never, TypeAlias, assert_never

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import DEEPEST, Budget, OverBudgetError
from fairwarning.core.document.render import Json

LONGEST = 24_576  # characters of an expression, as in Azure

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*+(?:''[^']*+)*+')|(?P<whole>-?[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>[().,\[\]])|$)"
)
_INT64 = range(-(2**63), 2**63)
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")

_TYPE_NAMES: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


class LiteralNode(NamedTuple):
    """A string or an integer."""

    value: str | int


class FunctionCall(NamedTuple):
    """A call of a function; ``name`` is in lower case, ``spelling`` as written."""

    name: str
    arguments: tuple["Node", ...]
    spelling: str


class MemberAccess(NamedTuple):
    """A property of an object, or an item of an array."""

    container: "Node"
    key: "Node"


Node: TypeAlias = LiteralNode | FunctionCall | MemberAccess


class FunctionArguments(NamedTuple):
    """The arguments of a call; the methods return them as the types that a function needs."""

    function: str
    values: Sequence[Json]
    budget: Budget

    def text(self, index: int) -> str:
        """Return an argument that must be a string."""
        value = self.values[index]
        return value if isinstance(value, str) else self._refuse(index, "a string")

    def integer(self, index: int) -> int:
        """Return an argument that must be an integer."""
        value = self.values[index]
        if isinstance(value, int) and not isinstance(value, bool) and value in _INT64:
            return value
        return self._refuse(index, "a 64-bit integer")

    def boolean(self, index: int) -> bool:
        """Return an argument that must be a boolean."""
        value = self.values[index]
        return value if isinstance(value, bool) else self._refuse(index, "a boolean")

    def items(self, index: int) -> list[Json]:
        """Return an argument that must be an array."""
        value = self.values[index]
        return value if isinstance(value, list) else self._refuse(index, "an array")

    def fields(self, index: int) -> dict[str, Json]:
        """Return an argument that must be an object."""
        value = self.values[index]
        return value if isinstance(value, dict) else self._refuse(index, "an object")

    def texts(self) -> list[str]:
        """Return the arguments, all of which must be strings."""
        return [self.text(index) for index in range(len(self.values))]

    def _refuse(self, index: int, expected: str) -> Never:
        actual = type_name(self.values[index])
        raise InvalidTemplateError(f"{self.function}: argument {index + 1} must be {expected}, not {actual}")


class TemplateFunction(NamedTuple):
    """A template function, and how many arguments it takes."""

    least: int
    most: int
    apply: Callable[[FunctionArguments], Json]


Functions: TypeAlias = Mapping[str, TemplateFunction]


def type_name(value: Json) -> str:
    """Return the type of a value, as error messages name it."""
    return _TYPE_NAMES[type(value)]


def parse_integer(text: str) -> int:
    """Return the integer in a string.

    Raises:
        InvalidTemplateError: the string is not a 64-bit integer.
    """
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or number not in _INT64:
        raise InvalidTemplateError("the text is not a 64-bit integer")
    return number


def expression_in(text: str) -> str | None:
    """Return the expression in a string's brackets, or None for a plain string."""
    if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
        return text[1:-1]
    return None


class Trees:
    """The parsed expressions of a template; each is parsed once."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._nodes: dict[str, Node] = {}

    def parse(self, expression: str) -> Node:
        """Return the tree of an expression, given without its brackets.

        Raises:
            InvalidTemplateError: the expression is malformed, too long or nested too deeply.
        """
        node = self._nodes.get(expression)
        if node is not None:
            return node
        if len(expression) > LONGEST:
            raise InvalidTemplateError(
                f"an expression is longer than {LONGEST} characters: [{expression[:80]}"
            )
        self.budget.charge_steps(len(expression) // 2)
        parser = _Parser(expression)
        node = parser.node(0)
        parser.expect("")
        self._nodes[expression] = node
        return node


def find_calls(value: Json, trees: Trees) -> Iterator[FunctionCall]:
    """Yield every function call in the expressions of a document."""
    unvisited: list[Json | Node] = [value]
    while unvisited:
        trees.budget.charge_steps()
        match unvisited.pop():
            case str() as text:
                expression = expression_in(text)
                unvisited.extend([] if expression is None else [trees.parse(expression)])
            case list() as items:
                unvisited.extend(items)
            case dict() as fields:
                unvisited.extend([*fields, *fields.values()])
            case FunctionCall() as call:
                yield call
                unvisited.extend(call.arguments)
            case MemberAccess(container=node, key=key):
                unvisited.extend([node, key])
            case _:
                pass


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = list(self._split())
        self._next = 0

    def _split(self) -> Iterator[tuple[str, str]]:
        """Yield the kinds and the texts of the tokens; a mark is a kind of its own, and the end is empty."""
        position = 0
        while match := _TOKEN.match(self._expression, position):
            kind = match.lastgroup or ""
            text = match.group(kind or 0).strip()
            yield text if kind == "mark" else kind, text
            if not kind:
                return
            position = match.end()
        self._refuse(f"unexpected {self._expression[position:].lstrip()[:1]!r}")

    def _refuse(self, problem: str) -> Never:
        raise InvalidTemplateError(f"{problem} in the expression [{self._expression[:200]}]")

    def _take(self, expected: str, *kinds: str) -> tuple[str, str]:
        """Consume the next token, which must be of one of these kinds."""
        kind, text = self._tokens[self._next]
        if kind not in kinds:
            self._refuse(f"expected {expected}, not {repr(text) if text else 'the end'}")
        self._next += 1
        return kind, text

    def _at(self, mark: str) -> bool:
        return self._tokens[self._next][0] == mark

    def expect(self, mark: str) -> None:
        """Consume the next token, which must be this mark; the empty mark is the end."""
        self._take(repr(mark) if mark else "the end", mark)

    def node(self, depth: int) -> Node:
        """Parse a value and the member accesses that follow it."""
        if depth > DEEPEST:
            raise InvalidTemplateError(f"an expression nests deeper than {DEEPEST} levels")
        node = self._plain(depth)
        levels = depth
        while self._at(".") or self._at("["):
            levels += 1
            if levels > DEEPEST:
                raise InvalidTemplateError(f"an expression nests deeper than {DEEPEST} levels")
            node = MemberAccess(node, self._key(depth))
        return node

    def _key(self, depth: int) -> Node:
        if self._at("["):
            self.expect("[")
            key = self.node(depth + 1)
            self.expect("]")
            return key
        self.expect(".")
        return LiteralNode(self._take("a property name after '.'", "name")[1])

    def _plain(self, depth: int) -> Node:
        kind, text = self._take("a value", "text", "whole", "name")
        match kind:
            case "text":
                return LiteralNode(text[1:-1].replace("''", "'"))
            case "whole":
                return LiteralNode(parse_integer(text))
            case _:
                return self._call(text, depth)

    def _call(self, name: str, depth: int) -> Node:
        if not self._at("("):
            self._refuse(f"{name!r} is neither a quoted string nor a function call")
        self.expect("(")
        arguments: list[Node] = []
        while not self._at(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.node(depth + 1))
        self.expect(")")
        return FunctionCall(name.lower(), tuple(arguments), name)


class Evaluation:
    """Evaluates expressions with a set of functions, within the template's budget."""

    def __init__(self, functions: Functions, trees: Trees) -> None:
        self._functions = functions
        self._trees = trees
        self._budget = trees.budget

    def text(self, text: str) -> Json:
        """Return the value of a string: the value of its expression, or the string itself."""
        expression = expression_in(text)
        if expression is not None:
            try:
                return self.node(self._trees.parse(expression))
            except OverBudgetError as error:
                raise error.within(expression) from None
        is_escaped = text.startswith("[[") and text.endswith("]")
        return text[1:] if is_escaped else text

    def node(self, node: Node) -> Json:
        """Return the value of a tree."""
        self._budget.charge_steps()
        match node:
            case LiteralNode(value=value):
                return value
            case MemberAccess(container=inner, key=key):
                return get_member(self.node(inner), self.node(key), self._budget)
            case FunctionCall(name="if", arguments=(test, then, otherwise)):
                condition = FunctionArguments("if", [self.node(test)], self._budget).boolean(0)
                return self.node(then if condition else otherwise)
            case FunctionCall():
                return self._call(node)
            case _:
                assert_never(node)

    def _call(self, call: FunctionCall) -> Json:
        function, budget = find_function(call, self._functions), self._budget
        values = [self.node(argument) for argument in call.arguments]
        budget.check_time()
        budget.charge_read(sum(map(budget.weigh, values)))
        value = function.apply(FunctionArguments(call.spelling, values, budget))
        budget.charge_value(value)
        return value


def find_function(call: FunctionCall, functions: Functions) -> TemplateFunction:
    """Return the function of a call.

    Raises:
        InvalidTemplateError: there is no such function, or the number of arguments is wrong.
    """
    function = functions.get(call.name)
    if function is None:
        raise InvalidTemplateError(f"the template function {call.spelling!r} is not supported")
    count = len(call.arguments)
    if not function.least <= count <= function.most:
        bound = f"at least {function.least}" if count < function.least else f"at most {function.most}"
        raise InvalidTemplateError(f"{call.spelling}: takes {bound} arguments, not {count}")
    return function


def get_member(container: Json, key: Json, budget: Budget) -> Json:
    """Return a property of an object, whose name is case-insensitive, or an item of an array.

    Raises:
        InvalidTemplateError: there is no such property or item.
    """
    match container, key:
        case dict(), str() if key in container:
            return container[key]
        case dict(), str():
            budget.charge_steps(len(container))
            folded = {name.lower(): name for name in container}
            name = folded.get(key.lower())
            if name is None:
                raise InvalidTemplateError(
                    f"there is no property {key!r} among {', '.join(container) or 'none'}"
                )
            return container[name]
        case list(), int() if 0 <= key < len(container):
            return container[key]
        case list(), int():
            raise InvalidTemplateError(f"there is no item {key} in an array of {len(container)}")
        case _:
            raise InvalidTemplateError(f"{type_name(container)} has no member {key!r}")
