"""What the expressions of a template can refer to.

A ``TemplateContext`` belongs to one template: parameters, variables, the names of resources, the deployment
target and the functions that read them. A ``TemplateFrame`` is a place in the template: it adds the loops
around that place, so that ``copyIndex()`` has a value there, and evaluates the documents at that place.

Parameters and variables are evaluated on first use and kept. Both may refer to each other; a value that
refers to itself is an error. Names match in any case, as in ARM. ``reference()`` is the only function that
reads deployed resources: it asks the target for them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from fairwarning.arm.documents import CaseInsensitiveFields
from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import DEEPEST, Budget
from fairwarning.arm.templates.expressions import (
    Evaluation,
    FunctionArguments,
    TemplateFunction,
    Trees,
    get_member,
    type_name,
)
from fairwarning.arm.templates.functions import PURE
from fairwarning.arm.templates.secrets import is_secret, secrets_of
from fairwarning.core.document.render import Json

MOST_COPIES = 800  # iterations of a loop; also the resources of a template
_LOOKUP = 250  # steps; a lookup waits for the event loop
API_VERSION = "2024-07-01"  # the answer of providers(); the routes accept every version

_TYPES: Mapping[str, type] = {
    "string": str,
    "securestring": str,
    "int": int,
    "bool": bool,
    "array": list,
    "object": dict,
    "secureobject": dict,
}


class DeploymentTarget(NamedTuple):
    """The resource group to deploy to; ``lookup`` finds resources that already exist."""

    subscription: str
    group: str
    group_document: Json
    tenant: str
    lookup: Callable[[str], Json | None]

    def root(self, subscription: str | None = None, group: str | None = None) -> str:
        """Return the id of a resource group; the default is the group of the deployment."""
        return f"/subscriptions/{subscription or self.subscription}/resourceGroups/{group or self.group}"


@contextmanager
def at(place: str) -> Iterator[None]:
    """Add a place to the errors that are raised in the block."""
    try:
        yield
    except InvalidTemplateError as error:
        raise error.at(place) from None
    except RecursionError:
        raise InvalidTemplateError("it nests too deeply", place) from None


def as_fields(value: Json, what: str) -> dict[str, Json]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise InvalidTemplateError(f"{what} must be an object, not {type_name(value)}")
    return value


def as_items(value: Json, what: str) -> list[Json]:
    """Return a value that must be an array; a missing one is empty."""
    if value is not None and not isinstance(value, list):
        raise InvalidTemplateError(f"{what} must be an array, not {type_name(value)}")
    return value or []


def as_text(value: Json, what: str) -> str:
    """Return a value that must be a string and not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidTemplateError(
            f"{what} must be a string, not {repr(value) if value == '' else type_name(value)}"
        )
    return value


def section(template: Json, name: str) -> dict[str, Json]:
    """Return a section of the template that must be an object; a missing one is empty."""
    part = as_fields(template, "a template").get(name)
    return {} if part is None else as_fields(part, name)


def resource_id(root: str, kind: str, name: str) -> str:
    """Return the id of a resource, in which the parts of its type and its name alternate.

    Raises:
        InvalidTemplateError: the type does not have one part more than the name.
    """
    namespace, *kinds = kind.split("/")
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all([namespace, *kinds, *names]):
        raise InvalidTemplateError(
            f"the type {kind!r} and the name {name!r} do not match: the type needs one more part"
        )
    path = "".join(f"/{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"{root}/providers/{namespace}{path}"


class TemplateContext:
    """What all expressions of one template have in common.

    Raises:
        InvalidTemplateError: a parameter is missing, unknown or of the wrong type.
    """

    def __init__(self, template: Json, parameters: Json, target: DeploymentTarget, budget: Budget) -> None:
        self.target = target
        self.budget = budget
        self.trees = Trees(budget)
        #: The ids of resources by the lower-case names that a template may use.
        self.named: dict[str, list[str]] = {}
        self._declared = CaseInsensitiveFields(section(template, "parameters"))
        given = as_fields({} if parameters is None else parameters, "parameters")
        self._given = CaseInsensitiveFields(given)
        variables, self._looped = _split_loops(section(template, "variables"))
        self._variables = CaseInsensitiveFields(variables)
        self._values: dict[str, Json] = {}
        self._evaluating: set[str] = set()
        self.functions: Mapping[str, TemplateFunction] = {
            **PURE,
            "parameters": TemplateFunction(1, 1, lambda a: self._parameter(a.text(0))),
            "variables": TemplateFunction(1, 1, lambda a: self._variable(a.text(0))),
            "reference": TemplateFunction(1, 3, self._reference),
            "resourceid": TemplateFunction(2, 1_000, self._resource_id),
            "providers": TemplateFunction(1, 2, _providers),
            "resourcegroup": TemplateFunction(0, 0, lambda a: target.group_document),
            "subscription": TemplateFunction(0, 0, self._subscription),
        }
        for name in self._given.fields:
            if self._declared.spelling(name) is None:
                raise InvalidTemplateError(
                    "a value is given, but the template does not declare it", f"parameter {name}"
                )
        for name in self._declared.fields:
            self._parameter(name)

    def find(self, name: str) -> list[str]:
        """Return the ids that a name refers to: a resource's name, with or without type, its id, or a loop.

        Raises:
            InvalidTemplateError: it refers to none.
        """
        ids = self.named.get(name.lower())
        if ids is None:
            raise InvalidTemplateError(f"the template does not define the resource {name!r}")
        self.budget.charge_steps(1 + len(ids) // 4)
        return list(dict.fromkeys(ids))  # a template may declare a resource twice, under opposite conditions

    def secrets(self) -> frozenset[str]:
        """Return the strings in the values of secure parameters."""
        declared = self._declared.fields.items()
        secure = [name for name, declaration in declared if is_secret(as_fields(declaration, name)["type"])]
        return secrets_of(map(self._parameter, secure), self.budget)

    def _parameter(self, name: str) -> Json:
        spelling = self._declared.spelling(name)
        if spelling is None:
            raise InvalidTemplateError(f"the template declares no parameter {name!r}")
        return self._memoize(f"parameter {spelling}", lambda: self._value(spelling))

    def _value(self, name: str) -> Json:
        self.budget.charge_steps()
        declared = as_fields(self._declared.fields[name], "its declaration")
        spelling = self._given.spelling(name)
        given = as_fields({} if spelling is None else self._given.fields[spelling], "what is given for it")
        if "value" in given:
            value = given["value"]
        elif "reference" in given:
            raise InvalidTemplateError("its value is in a key vault, and key vaults are not supported")
        elif "defaultValue" in declared:
            value = TemplateFrame(self).document(declared["defaultValue"])
        else:
            raise InvalidTemplateError("no value is given, and it has no defaultValue")
        kind = as_text(declared.get("type"), "its type")
        if kind.lower() not in _TYPES:
            raise InvalidTemplateError(f"its type {kind!r} is not a parameter type")
        if type(value) is not _TYPES[kind.lower()]:
            raise InvalidTemplateError(f"its value must be of type {kind}, not {type_name(value)}")
        allowed = as_items(declared.get("allowedValues"), "allowedValues")
        if allowed and value not in allowed:
            raise InvalidTemplateError("its value is not among the allowedValues")
        return value

    def _variable(self, name: str) -> Json:
        spelling = self._variables.spelling(name)
        if spelling is None:
            raise InvalidTemplateError(f"the template declares no variable {name!r}")
        declared = self._variables.fields[spelling]
        value = self._memoize(f"variable {spelling}", lambda: TemplateFrame(self).document(declared))
        return get_member(value, spelling, self.budget) if spelling in self._looped else value

    def _memoize(self, place: str, evaluate: Callable[[], Json]) -> Json:
        if place in self._values:
            return self._values[place]
        if place in self._evaluating:
            raise InvalidTemplateError("it depends on itself", place)
        self._evaluating.add(place)
        try:
            with at(place):
                self._values[place] = evaluate()
        finally:
            self._evaluating.discard(place)
        return self._values[place]

    def _reference(self, a: FunctionArguments) -> Json:
        name = a.text(0)
        ids = [name] if name.startswith("/") else self.find(name)
        if len(ids) != 1:
            raise InvalidTemplateError(
                f"reference: {name!r} stands for {len(ids)} resources; give the id of one"
            )
        self.budget.charge_steps(_LOOKUP)
        document = self.target.lookup(ids[0])
        if document is None:
            raise InvalidTemplateError(f"reference: the resource {ids[0]} does not exist")
        is_full = len(a.values) > 2 and a.text(2).lower() == "full"
        return document if is_full else get_member(document, "properties", self.budget)

    def _resource_id(self, a: FunctionArguments) -> Json:
        texts = a.texts()
        kind = next((index for index, text in enumerate(texts) if "/" in text), None)
        if kind is None or kind > 2:
            raise InvalidTemplateError(f"resourceId: none of {', '.join(texts)} is a resource type")
        group = texts[kind - 1] if kind > 0 else None
        subscription = texts[0] if kind > 1 else None
        return resource_id(self.target.root(subscription, group), texts[kind], "/".join(texts[kind + 1 :]))

    def _subscription(self, a: FunctionArguments) -> Json:
        return {
            "id": f"/subscriptions/{self.target.subscription}",
            "subscriptionId": self.target.subscription,
            "tenantId": self.target.tenant,
            "displayName": self.target.subscription,
        }


class TemplateFrame:
    """A place in a template: evaluates documents with the indexes of the loops around them."""

    def __init__(
        self, context: TemplateContext, loops: Mapping[str, int] | None = None, index: int | None = None
    ) -> None:
        self.context = context
        self._loops = loops or {}
        self._index = index  # the index that copyIndex() without a name returns: that of the resource's loop
        self.functions = {**context.functions, "copyindex": TemplateFunction(0, 2, self._copy_index)}
        self.evaluation = Evaluation(self.functions, context.trees)

    def iteration(self, loop: str, index: int) -> "TemplateFrame":
        """Return the frame of one iteration of a resource's loop."""
        return TemplateFrame(self.context, {**self._loops, loop.lower(): index}, index)

    def count(self, loop: Mapping[str, Json]) -> int:
        """Return the number of iterations of a loop."""
        count = self.document(loop.get("count"))
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_COPIES:
            raise InvalidTemplateError(f"the count of a copy must be an integer from 0 to {MOST_COPIES}")
        return count

    def document(self, value: Json, depth: int = 0) -> Json:
        """Return a document with every expression in it evaluated."""
        if depth > DEEPEST:
            raise InvalidTemplateError(f"it has more than {DEEPEST} levels of nesting")
        self.context.budget.charge_steps()
        match value:
            case str():
                return self._text(value)
            case list():
                return [self.document(item, depth + 1) for item in value]
            case dict():
                return self._object(value, depth)
            case _:
                return value

    def _text(self, text: str) -> Json:
        value, budget = self.evaluation.text(text), self.context.budget
        budget.charge_size(budget.weigh(value))
        return value

    def _object(self, fields: Mapping[str, Json], depth: int) -> Json:
        evaluated: dict[str, Json] = {}
        for name, value in fields.items():
            if name == "copy" and isinstance(value, list):
                evaluated.update(self._looped(as_fields(loop, "a copy"), depth) for loop in value)
            else:
                key = as_text(self._text(name), "a property's name") if name else name
                evaluated[key] = self.document(value, depth + 1)
        return evaluated

    def _looped(self, loop: Mapping[str, Json], depth: int) -> tuple[str, Json]:
        name = as_text(loop.get("name"), "the name of a copy")
        items: list[Json] = []
        for index in range(self.count(loop)):
            frame = TemplateFrame(self.context, {**self._loops, name.lower(): index}, self._index)
            items.append(frame.document(loop.get("input"), depth + 1))
        return name, items

    def _copy_index(self, a: FunctionArguments) -> Json:
        is_named = bool(a.values) and isinstance(a.values[0], str)
        index = self._loops.get(a.text(0).lower()) if is_named else self._index
        if index is None:
            raise InvalidTemplateError(
                f"copyIndex: there is no loop {a.text(0) if is_named else ''}".rstrip() + " around it"
            )
        return index + (a.integer(int(is_named)) if len(a.values) > is_named else 0)


def _providers(a: FunctionArguments) -> Json:
    if len(a.values) == 1:
        return {"namespace": a.text(0), "resourceTypes": []}
    return {"resourceType": a.text(1), "locations": [], "apiVersions": [API_VERSION]}


def _split_loops(variables: Mapping[str, Json]) -> tuple[dict[str, Json], frozenset[str]]:
    plain = {name: value for name, value in variables.items() if name != "copy"}
    loops = [as_fields(loop, "a copy") for loop in as_items(variables.get("copy"), "copy")]
    looped: dict[str, Json] = {
        as_text(loop.get("name"), "the name of a copy"): {"copy": [loop]} for loop in loops
    }
    return {**plain, **looped}, frozenset(looped)
