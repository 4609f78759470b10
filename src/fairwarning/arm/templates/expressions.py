"""The expression language that deployment templates are written in, and nothing of what templates mean.

``"[concat('web-', parameters('n'))]"`` is an expression because it is a string in brackets. It is parsed
into a small tree before anything is evaluated, so that a template can be searched for what it calls, and so
that ``if`` evaluates only the branch it takes. What a function does is in ``functions.py``; this module only
calls it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Never, TypeAlias, assert_never

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import DEEPEST, Budget, OverBudgetError
from fairwarning.core.document.render import Json

LONGEST = 24_576  # characters of an expression, as in Azure

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*+(?:''[^']*+)*+')|(?P<whole>-?[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>[().,\[\]])|$)"
)
_WHOLES = range(-(2**63), 2**63)
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")

_WORDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class LiteralNode:
    """A value that stands for itself."""

    value: str | int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function and what it is given; functions are known by their lower-case names."""

    name: str
    arguments: tuple["Node", ...]
    spelling: str


@dataclass(frozen=True, slots=True)
class MemberAccess:
    """One property of an object, or one item of an array."""

    whole: "Node"
    key: "Node"


Node: TypeAlias = LiteralNode | FunctionCall | MemberAccess


@dataclass(frozen=True, slots=True)
class FunctionArguments:
    """What a function was given, read as the types the function needs."""

    function: str
    values: Sequence[Json]
    budget: Budget

    def text(self, place: int) -> str:
        """Return an argument that must be a string."""
        value = self.values[place]
        return value if isinstance(value, str) else self._refuse(place, "a string")

    def whole(self, place: int) -> int:
        """Return an argument that must be an integer."""
        value = self.values[place]
        if isinstance(value, int) and not isinstance(value, bool) and value in _WHOLES:
            return value
        return self._refuse(place, "an integer of 64 bits")

    def claim(self, place: int) -> bool:
        """Return an argument that must be true or false."""
        value = self.values[place]
        return value if isinstance(value, bool) else self._refuse(place, "a boolean")

    def items(self, place: int) -> list[Json]:
        """Return an argument that must be an array."""
        value = self.values[place]
        return value if isinstance(value, list) else self._refuse(place, "an array")

    def fields(self, place: int) -> dict[str, Json]:
        """Return an argument that must be an object."""
        value = self.values[place]
        return value if isinstance(value, dict) else self._refuse(place, "an object")

    def texts(self, start: int = 0) -> list[str]:
        """Return the arguments from ``start`` on, all of which must be strings."""
        return [self.text(place) for place in range(start, len(self.values))]

    def _refuse(self, place: int, wanted: str) -> Never:
        found = called(self.values[place])
        raise InvalidTemplateError(f"{self.function}: argument {place + 1} must be {wanted}, not {found}")


@dataclass(frozen=True, slots=True)
class TemplateFunction:
    """What a name in a template calls, and how many arguments it takes."""

    least: int
    most: int
    act: Callable[[FunctionArguments], Json]


Functions: TypeAlias = Mapping[str, TemplateFunction]


def called(value: Json) -> str:
    """Return what messages call the type of a value."""
    return _WORDS[type(value)]


def whole(text: str) -> int:
    """Return the integer a string spells.

    Raises:
        InvalidTemplate: it spells none, or one that 64 bits cannot hold.
    """
    number = int(text) if _WHOLE.fullmatch(text) else None
    if number is None or number not in _WHOLES:
        raise InvalidTemplateError(f"{text[:40]!r} is not a 64-bit integer")
    return number


def source(text: str) -> str | None:
    """Return the expression inside a string's brackets, or nothing if the string is only a string."""
    if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
        return text[1:-1]
    return None


class Trees:
    """The expressions of one template, each parsed once."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._known: dict[str, Node] = {}

    def parse(self, expression: str) -> Node:
        """Return the tree of an expression that stood in brackets.

        Raises:
            InvalidTemplate: it follows no grammar, is too long or nests too deeply.
        """
        known = self._known.get(expression)
        if known is not None:
            return known
        if len(expression) > LONGEST:
            raise InvalidTemplateError(
                f"an expression is longer than {LONGEST} characters: [{expression[:80]}"
            )
        self.budget.step(len(expression) // 2)
        parser = _Parser(expression)
        node = parser.node(0)
        parser.expect("")
        self._known[expression] = node
        return node


def calls(value: Json, trees: Trees) -> Iterator[FunctionCall]:
    """Yield every function call in the expressions of a document."""
    waiting: list[Json | Node] = [value]
    while waiting:
        trees.budget.step()
        match waiting.pop():
            case str() as text:
                expression = source(text)
                waiting.extend([] if expression is None else [trees.parse(expression)])
            case list() as items:
                waiting.extend(items)
            case dict() as fields:
                waiting.extend([*fields, *fields.values()])
            case FunctionCall() as call:
                yield call
                waiting.extend(call.arguments)
            case MemberAccess(whole=node, key=key):
                waiting.extend([node, key])
            case _:
                pass


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = list(self._split())
        self._next = 0

    def _split(self) -> Iterator[tuple[str, str]]:
        position = 0
        while match := _TOKEN.match(self._expression, position):
            yield match.lastgroup or "", match.group(match.lastgroup or 0).strip()
            if match.lastgroup is None:
                return
            position = match.end()
        self._refuse(f"unexpected {self._expression[position:].lstrip()[:1]!r}")

    def _refuse(self, problem: str) -> Never:
        raise InvalidTemplateError(f"{problem} in the expression [{self._expression[:200]}]")

    def _take(self) -> tuple[str, str]:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _at(self, text: str) -> bool:
        return self._tokens[self._next] == ("mark" if text else "", text)

    def expect(self, text: str) -> None:
        """Step over a mark that has to be next; the empty mark is the end."""
        if not self._at(text):
            found = self._tokens[self._next][1]
            wanted = repr(text) if text else "the end"
            self._refuse(f"expected {wanted}, not {repr(found) if found else 'the end'}")
        self._next += 1

    def node(self, depth: int) -> Node:
        """Read one value with the properties and items taken from it."""
        if depth > DEEPEST:
            raise InvalidTemplateError(f"an expression nests deeper than {DEEPEST} levels")
        node = self._plain(depth)
        steps = depth
        while self._at(".") or self._at("["):
            steps += 1
            if steps > DEEPEST:
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
        kind, text = self._take()
        if kind != "name":
            self._refuse(f"expected a property name after '.', not {repr(text) if text else 'the end'}")
        return LiteralNode(text)

    def _plain(self, depth: int) -> Node:
        kind, text = self._take()
        match kind:
            case "text":
                return LiteralNode(text[1:-1].replace("''", "'"))
            case "whole":
                return LiteralNode(whole(text))
            case "name":
                return self._call(text, depth)
            case _:
                self._refuse(f"expected a value, not {repr(text) if text else 'the end'}")

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
    """Gives expressions their values, by the functions it was given and within the template's budget."""

    def __init__(self, functions: Functions, trees: Trees) -> None:
        self._functions = functions
        self._trees = trees
        self._budget = trees.budget

    def text(self, text: str) -> Json:
        """Return what a string stands for: an expression's value, or the string."""
        expression = source(text)
        if expression is not None:
            try:
                return self.node(self._trees.parse(expression))
            except OverBudgetError as over:
                raise over.within(expression) from None
        escaped = text.startswith("[[") and text.endswith("]")
        return text[1:] if escaped else text

    def node(self, node: Node) -> Json:
        """Return the value of a tree."""
        self._budget.step()
        match node:
            case LiteralNode(value=value):
                return value
            case MemberAccess(whole=inner, key=key):
                return member(self.node(inner), self.node(key), self._budget)
            case FunctionCall(name="if", arguments=(test, yes, no)):
                verdict = FunctionArguments("if", [self.node(test)], self._budget).claim(0)
                return self.node(yes if verdict else no)
            case FunctionCall():
                return self._call(node)
            case _:
                assert_never(node)

    def _call(self, call: FunctionCall) -> Json:
        function, budget = known(call, self._functions), self._budget
        values = [self.node(argument) for argument in call.arguments]
        budget.look()
        budget.read(sum(map(budget.weight, values)))
        value = function.act(FunctionArguments(call.spelling, values, budget))
        budget.take(value)
        return value


def known(call: FunctionCall, functions: Functions) -> TemplateFunction:
    """Return the function a template calls.

    Raises:
        InvalidTemplate: there is none of this name, or it takes another number of arguments.
    """
    function = functions.get(call.name)
    if function is None:
        raise InvalidTemplateError(f"the template function {call.spelling!r} is not supported")
    count = len(call.arguments)
    if not function.least <= count <= function.most:
        bound = f"at least {function.least}" if count < function.least else f"at most {function.most}"
        raise InvalidTemplateError(f"{call.spelling}: takes {bound} arguments, not {count}")
    return function


def member(whole: Json, key: Json, budget: Budget) -> Json:
    """Return one property of an object, in whatever case it is written, or one item of an array.

    Raises:
        InvalidTemplate: there is no such property or item.
    """
    match whole, key:
        case dict(), str() if key in whole:
            return whole[key]
        case dict(), str():
            budget.step(len(whole))
            folded = {name.lower(): name for name in whole}
            name = folded.get(key.lower())
            if name is None:
                raise InvalidTemplateError(
                    f"there is no property {key!r} among {', '.join(whole) or 'none'}"[:400]
                )
            return whole[name]
        case list(), int() if 0 <= key < len(whole):
            return whole[key]
        case list(), int():
            raise InvalidTemplateError(f"there is no item {key} in an array of {len(whole)}")
        case _:
            raise InvalidTemplateError(f"{called(whole)} has no member {key!r}")
