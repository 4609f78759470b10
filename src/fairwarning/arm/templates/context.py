"""What the expressions of a template can see: its parameters, its variables, its loops and what is deployed.

A *context* belongs to a template; a *frame* is a place in it, which knows the loops around it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import DEEPEST, Budget
from fairwarning.arm.templates.expressions import (
    Evaluation,
    FunctionArguments,
    TemplateFunction,
    Trees,
    called,
    member,
)
from fairwarning.arm.templates.functions import PURE
from fairwarning.core.document.render import Json

MOST = 800  # rounds of a loop, and resources of a template
_LOOKUP = 250  # steps: who knows what is deployed has other things to do
API_VERSION = "2024-07-01"  # what providers() answers; every route takes any version

_TYPES: Mapping[str, type] = {
    "string": str,
    "securestring": str,
    "int": int,
    "bool": bool,
    "array": list,
    "object": dict,
    "secureobject": dict,
}


@dataclass(frozen=True, slots=True)
class DeploymentTarget:
    """Where a template is deployed, and what is there already."""

    subscription: str
    group: str
    group_document: Json
    tenant: str
    lookup: Callable[[str], Json | None]

    def root(self, subscription: str | None = None, group: str | None = None) -> str:
        """Return the id of a resource group, by default of the one deployed to."""
        return f"/subscriptions/{subscription or self.subscription}/resourceGroups/{group or self.group}"


@contextmanager
def at(place: str) -> Iterator[None]:
    """Say where it was, should the template prove invalid."""
    try:
        yield
    except InvalidTemplateError as error:
        raise error.at(place) from None
    except RecursionError:
        raise InvalidTemplateError("it nests too deeply", place) from None


def as_fields(value: Json, what: str) -> dict[str, Json]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise InvalidTemplateError(f"{what} must be an object, not {called(value)}")
    return value


def as_items(value: Json, what: str) -> list[Json]:
    """Return a value that must be an array, or be left out."""
    if value is not None and not isinstance(value, list):
        raise InvalidTemplateError(f"{what} must be an array, not {called(value)}")
    return value or []


def as_text(value: Json, what: str) -> str:
    """Return a value that must be a string with something in it."""
    if not isinstance(value, str) or not value:
        raise InvalidTemplateError(
            f"{what} must be a string, not {repr(value) if value == '' else called(value)}"
        )
    return value


def section(template: Json, name: str) -> dict[str, Json]:
    """Return a part of the template that must be an object, or be left out."""
    part = as_fields(template, "a template").get(name)
    return {} if part is None else as_fields(part, name)


def resource_id(root: str, kind: str, name: str) -> str:
    """Return the id of a resource, whose type and name take turns in it.

    Raises:
        InvalidTemplate: the type does not have one part more than the name.
    """
    namespace, *kinds = kind.split("/")
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all([namespace, *kinds, *names]):
        raise InvalidTemplateError(
            f"the type {kind!r} and the name {name!r} do not fit: one part more in the type"
        )
    steps = "".join(f"/{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"{root}/providers/{namespace}{steps}"


class TemplateContext:
    """What is the same for every expression of one template.

    Raises:
        InvalidTemplate: a parameter is missing, unknown or of the wrong type.
    """

    def __init__(
        self, template: Json, parameters: Json, surroundings: DeploymentTarget, budget: Budget
    ) -> None:
        self.surroundings = surroundings
        self.budget = budget
        self.trees = Trees(budget)
        self.named: dict[str, list[str]] = {}  # lower-case names, by which a template speaks of ids
        self._declared = _Spelled(section(template, "parameters"))
        self._given = _Spelled(as_fields({} if parameters is None else parameters, "parameters"))
        variables, self._looped = _split_loops(section(template, "variables"))
        self._variables = _Spelled(variables)
        self._known: dict[str, Json] = {}
        self._under_way: set[str] = set()
        self.functions: Mapping[str, TemplateFunction] = {
            **PURE,
            "parameters": TemplateFunction(1, 1, lambda a: self._parameter(a.text(0))),
            "variables": TemplateFunction(1, 1, lambda a: self._variable(a.text(0))),
            "reference": TemplateFunction(1, 3, self._reference),
            "resourceid": TemplateFunction(2, 1_000, self._resource_id),
            "providers": TemplateFunction(1, 2, _providers),
            "resourcegroup": TemplateFunction(0, 0, lambda a: surroundings.group_document),
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
        """Return the ids of the template's resources that a name, type and name, id or loop stands for.

        Raises:
            InvalidTemplate: it stands for none.
        """
        ids = self.named.get(name.lower())
        if ids is None:
            raise InvalidTemplateError(f"the template does not define the resource {name[:200]!r}")
        self.budget.step(1 + len(ids) // 4)
        return list(dict.fromkeys(ids))  # opposite conditions may write one resource twice

    def _parameter(self, name: str) -> Json:
        spelled = self._declared.spelling(name)
        if spelled is None:
            raise InvalidTemplateError(f"the template declares no parameter {name!r}")
        return self._once(f"parameter {spelled}", lambda: self._value(spelled))

    def _value(self, name: str) -> Json:
        declared = as_fields(self._declared.fields[name], "its declaration")
        written = self._given.spelling(name)
        given = as_fields({} if written is None else self._given.fields[written], "what is given for it")
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
            raise InvalidTemplateError(f"its type {kind!r} is not one that parameters have")
        if type(value) is not _TYPES[kind.lower()]:
            raise InvalidTemplateError(f"its value must be of type {kind}, not {called(value)}")
        allowed = as_items(declared.get("allowedValues"), "allowedValues")
        if allowed and value not in allowed:
            raise InvalidTemplateError("its value is not among the allowedValues")
        return value

    def _variable(self, name: str) -> Json:
        spelled = self._variables.spelling(name)
        if spelled is None:
            raise InvalidTemplateError(f"the template declares no variable {name!r}")
        written = self._variables.fields[spelled]
        value = self._once(f"variable {spelled}", lambda: TemplateFrame(self).document(written))
        return member(value, spelled, self.budget) if spelled in self._looped else value

    def _once(self, place: str, evaluate: Callable[[], Json]) -> Json:
        if place in self._known:
            return self._known[place]
        if place in self._under_way:
            raise InvalidTemplateError("it depends on itself", place)
        self._under_way.add(place)
        try:
            with at(place):
                self._known[place] = evaluate()
        finally:
            self._under_way.discard(place)
        return self._known[place]

    def _reference(self, a: FunctionArguments) -> Json:
        name = a.text(0)
        ids = [name] if name.startswith("/") else self.find(name)
        if len(ids) != 1:
            raise InvalidTemplateError(
                f"reference: {name!r} stands for {len(ids)} resources; give the id of one"
            )
        self.budget.step(_LOOKUP)
        document = self.surroundings.lookup(ids[0])
        if document is None:
            raise InvalidTemplateError(f"reference: the resource {ids[0]} does not exist")
        full = len(a.values) > 2 and a.text(2).lower() == "full"
        return document if full else member(document, "properties", self.budget)

    def _resource_id(self, a: FunctionArguments) -> Json:
        texts = a.texts()
        kind = next((place for place, text in enumerate(texts) if "/" in text), None)
        if kind is None or kind > 2:
            raise InvalidTemplateError(f"resourceId: there is no type among {', '.join(texts)}"[:400])
        group = texts[kind - 1] if kind > 0 else None
        subscription = texts[0] if kind > 1 else None
        return resource_id(
            self.surroundings.root(subscription, group), texts[kind], "/".join(texts[kind + 1 :])
        )

    def _subscription(self, a: FunctionArguments) -> Json:
        return {
            "id": f"/subscriptions/{self.surroundings.subscription}",
            "subscriptionId": self.surroundings.subscription,
            "tenantId": self.surroundings.tenant,
            "displayName": self.surroundings.subscription,
        }


class TemplateFrame:
    """One place in a template: evaluates documents, knowing the loops around them."""

    def __init__(
        self, context: TemplateContext, loops: Mapping[str, int] | None = None, turn: int | None = None
    ) -> None:
        self.context = context
        self._loops = loops or {}
        self._turn = turn  # of the resource's own loop, which copyIndex() means when it names none
        self.functions = {**context.functions, "copyindex": TemplateFunction(0, 2, self._copy_index)}

    def turn(self, loop: str, index: int) -> "TemplateFrame":
        """Return the frame of one round of a resource's loop."""
        return TemplateFrame(self.context, {**self._loops, loop.lower(): index}, index)

    def document(self, value: Json) -> Json:
        """Return a document with every expression in it evaluated."""
        return self._document(value, 0)

    def count(self, loop: Mapping[str, Json]) -> int:
        """Return how many rounds a loop has."""
        count = self.document(loop.get("count"))
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST:
            raise InvalidTemplateError(f"the count of a copy must be an integer from 0 to {MOST}")
        return count

    def _document(self, value: Json, depth: int) -> Json:
        if depth > DEEPEST:
            raise InvalidTemplateError(f"it has more than {DEEPEST} levels of nesting")
        self.context.budget.step()
        match value:
            case str():
                return self._text(value)
            case list():
                return [self._document(item, depth + 1) for item in value]
            case dict():
                return self._object(value, depth)
            case _:
                return value

    def _text(self, text: str) -> Json:
        value = Evaluation(self.functions, self.context.trees).text(text)
        budget = self.context.budget
        budget.make(budget.weight(value))
        return value

    def _object(self, fields: Mapping[str, Json], depth: int) -> Json:
        made: dict[str, Json] = {}
        for name, value in fields.items():
            if name == "copy" and isinstance(value, list):
                made.update(self._looped(as_fields(loop, "a copy"), depth) for loop in value)
            else:
                key = as_text(self._text(name), "a property's name") if name else name
                made[key] = self._document(value, depth + 1)
        return made

    def _looped(self, loop: Mapping[str, Json], depth: int) -> tuple[str, Json]:
        name = as_text(loop.get("name"), "the name of a copy")
        items: list[Json] = []
        for index in range(self.count(loop)):
            inside = TemplateFrame(self.context, {**self._loops, name.lower(): index}, self._turn)
            items.append(inside._document(loop.get("input"), depth + 1))
        return name, items

    def _copy_index(self, a: FunctionArguments) -> Json:
        named = bool(a.values) and isinstance(a.values[0], str)
        index = self._loops.get(a.text(0).lower()) if named else self._turn
        if index is None:
            raise InvalidTemplateError(
                f"copyIndex: there is no loop {a.text(0) if named else ''}".rstrip() + " around it"
            )
        return index + (a.whole(int(named)) if len(a.values) > named else 0)


def _providers(a: FunctionArguments) -> Json:
    if len(a.values) == 1:
        return {"namespace": a.text(0), "resourceTypes": []}
    return {"resourceType": a.text(1), "locations": [], "apiVersions": [API_VERSION]}


class _Spelled:
    """Fields that are found in whatever case they are asked for."""

    def __init__(self, fields: dict[str, Json]) -> None:
        self.fields = fields
        # The first of several spellings counts.
        self._spellings = {name.lower(): name for name in reversed(fields)}

    def spelling(self, name: str) -> str | None:
        """Return how a field is spelled that somebody asks for."""
        return self._spellings.get(name.lower())


def _split_loops(variables: Mapping[str, Json]) -> tuple[dict[str, Json], frozenset[str]]:
    plain = {name: value for name, value in variables.items() if name != "copy"}
    loops = [as_fields(loop, "a copy") for loop in as_items(variables.get("copy"), "copy")]
    looped: dict[str, Json] = {
        as_text(loop.get("name"), "the name of a copy"): {"copy": [loop]} for loop in loops
    }
    return {**plain, **looped}, frozenset(looped)
