"""What a deployment template means: which resources, in which order, and what each of them says.

A template is planned as a whole, so that whatever can be wrong with it is known before anything is deployed.
Only ``reference()`` has to wait: it reads what another resource has become, so a resource's body is asked for
when its turn has come.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import Budget, OverBudgetError
from fairwarning.arm.templates.context import (
    MOST,
    DeploymentTarget,
    TemplateContext,
    TemplateFrame,
    as_fields,
    as_items,
    as_text,
    at,
    resource_id,
    section,
)
from fairwarning.arm.templates.expressions import Evaluation, called, calls, known
from fairwarning.core.document.render import Json

_DEPLOYMENT = "microsoft.resources/deployments"
_INSTRUCTIONS = frozenset(
    {
        "apiVersion",
        "comments",
        "condition",
        "copy",
        "dependsOn",
        "name",
        "resourceGroup",
        "resources",
        "scope",
        "subscriptionId",
        "type",
    }
)


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """A resource that a template asks for."""

    id: str
    type: str
    name: str
    api_version: str
    compose: Callable[[], dict[str, Json]] = field(repr=False, compare=False)
    budget: Budget = field(repr=False, compare=False)

    def body(self) -> dict[str, Json]:
        """Return the document to deploy, evaluated now: what it refers to must be deployed already.

        Raises:
            InvalidTemplate: it refers to a resource, or to a property of one, that is not there.
        """
        with at(f"resource {self.name}"), self.budget.running():
            return self.compose()


def plan(
    template: Json, parameters: Json, surroundings: DeploymentTarget, budget: Budget
) -> tuple[PlannedResource, ...]:
    """Return the resources of a template, each after those it depends on.

    Raises:
        InvalidTemplate: the template cannot be deployed.
    """
    with at("template"), budget.running():
        context = TemplateContext(template, parameters, surroundings, budget)
        wanted = [resource for resource in _unrolled(template, context) if resource.wanted]
        for resource in wanted:
            resource.check()
        for name, output in section(template, "outputs").items():
            with at(f"output {name}"):
                _check(output, TemplateFrame(context))
        return tuple(
            PlannedResource(
                resource.id, resource.type, resource.name, resource.api_version, resource.compose, budget
            )
            for resource in _ordered(wanted)
        )


def outputs(
    template: Json, parameters: Json, surroundings: DeploymentTarget, budget: Budget
) -> dict[str, Json]:
    """Return what a deployed template has to say, under the names that ARM gives it.

    Raises:
        InvalidTemplate: an output asks for something that is not there.
    """
    said: dict[str, Json] = {}
    with at("template"), budget.running():
        context = TemplateContext(template, parameters, surroundings, budget)
        _unrolled(template, context)
        for name, output in section(template, "outputs").items():
            with at(f"output {name}"):
                declared = as_fields(output, "an output")
                kind = as_text(declared.get("type"), "its type")
                if _wanted(declared, TemplateFrame(context)):
                    value = TemplateFrame(context).document(declared.get("value"))
                    said[_camel(name)] = {"type": kind[0].upper() + kind[1:], "value": value}
        budget.weight(said)
    return said


def _camel(name: str) -> str:
    # Capitals at the start are lowered, save the last if it begins the next word: VMSS, VMSSName, Name.
    capitals = len(name) - len(name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    lowered = capitals if capitals in (0, 1, len(name)) else capitals - 1
    return name[:lowered].lower() + name[lowered:]


def _check(document: Json, frame: TemplateFrame) -> set[str]:
    """Refuse expressions that nobody could evaluate, and return the names of the functions they call."""
    found = list(calls(document, frame.context.trees))
    for call in found:
        known(call, frame.functions)
    return {call.name for call in found}


def _wanted(document: Mapping[str, Json], frame: TemplateFrame) -> bool:
    verdict = frame.document(document.get("condition", True))
    if not isinstance(verdict, bool):
        raise InvalidTemplateError(f"its condition must be a boolean, not {called(verdict)}")
    return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    written: Mapping[str, Json]
    frame: TemplateFrame
    id: str
    type: str
    name: str
    api_version: str
    wanted: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Everything by which the rest of the template may call it."""
        return (self.id, self.id.partition("/providers/")[2], f"{self.type}/{self.name}", self.name)

    def compose(self) -> dict[str, Json]:
        """Return its document, evaluated."""
        with at(f"resource {self.name}"):
            mine, theirs = self._split()
            document = as_fields(self.frame.document(mine), "a resource")
            self.frame.context.budget.weight(document)
            if theirs is not None:
                as_fields(document["properties"], "properties")["template"] = theirs
            return {"type": self.type, "name": self.name, **document}

    def check(self) -> None:
        """Refuse what cannot be evaluated, as far as it can be known before anything is deployed."""
        with at(f"resource {self.name}"):
            names = _check(self._split()[0], self.frame)
        if "reference" not in names:
            self.compose()

    def dependencies(self) -> Iterator[str]:
        """Yield the ids of the template's resources that have to be deployed before this one."""
        with at(f"resource {self.name}"):
            for item in as_items(self.frame.document(self.written.get("dependsOn")), "dependsOn"):
                found = self.frame.context.find(as_text(item, "what it depends on"))
                # A name that several resources share means the others.
                yield from [other for other in found if other != self.id] or found
            yield from self._references()
            yield self.id.rpartition("/")[0].rpartition("/")[0]

    def _references(self) -> Iterator[str]:
        # reference() is a dependency even if dependsOn does not say so.
        trees = self.frame.context.trees
        for call in calls(self._split()[0], trees):
            if call.name == "reference" and call.arguments:
                try:
                    target = Evaluation(self.frame.functions, trees).node(call.arguments[0])
                    yield from self.frame.context.find(as_text(target, "what it refers to"))
                except OverBudgetError:
                    raise
                except InvalidTemplateError:
                    continue  # it means something outside, or nothing; its turn will tell

    def _split(self) -> tuple[dict[str, Json], Json]:
        """Separate what this template evaluates from a nested template that evaluates itself."""
        mine = {name: value for name, value in self.written.items() if name not in _INSTRUCTIONS}
        inside = mine.get("properties")
        if self.type.lower() != _DEPLOYMENT or not isinstance(inside, dict):
            return mine, None
        options = inside.get("expressionEvaluationOptions")
        own = isinstance(options, dict) and str(options.get("scope")).lower() == "inner"
        if not own or "template" not in inside:
            return mine, None
        mine["properties"] = {name: value for name, value in inside.items() if name != "template"}
        return mine, inside["template"]


def _unrolled(template: Json, context: TemplateContext) -> list[_Resource]:
    resources: list[_Resource] = []
    written = as_fields(template, "a template").get("resources")
    for one in as_items(written, "resources"):
        for resource in _expanded(one, TemplateFrame(context), None):
            if len(resources) == MOST:
                raise InvalidTemplateError(f"it has more than {MOST} resources")
            resources.append(resource)
    return resources


def _expanded(written: Json, frame: TemplateFrame, parent: _Resource | None) -> Iterator[_Resource]:
    document = as_fields(written, "a resource")
    with at(f"resource {document.get('name')}"):
        copy = document.get("copy")
        if copy is None:
            yield from _family(document, frame, parent)
            return
        loop = as_fields(copy, "copy")
        name = as_text(loop.get("name"), "the name of a copy")
        ids = frame.context.named.setdefault(name.lower(), [])
        for index in range(frame.count(loop)):
            family = list(_family(document, frame.turn(name, index), parent))
            ids.append(family[0].id)
            yield from family


def _family(
    document: Mapping[str, Json], frame: TemplateFrame, parent: _Resource | None
) -> Iterator[_Resource]:
    resource = _resource(document, frame, parent)
    for name in {name.lower() for name in resource.names}:
        frame.context.named.setdefault(name, []).append(resource.id)
    yield resource
    for child in as_items(document.get("resources"), "resources"):
        yield from _expanded(child, frame, resource)


def _resource(document: Mapping[str, Json], frame: TemplateFrame, parent: _Resource | None) -> _Resource:
    kind, name = _text(document, "type", frame), _text(document, "name", frame)
    if parent is not None and "/" not in kind:
        kind, name = f"{parent.type}/{kind}", f"{parent.name}/{name}"
    with at(f"resource {name}"):
        return _Resource(
            written=document,
            frame=frame,
            id=resource_id(_root(document, frame), kind, name),
            type=kind,
            name=name,
            api_version=_text(document, "apiVersion", frame),
            wanted=_wanted(document, frame),
        )


def _text(document: Mapping[str, Json], name: str, frame: TemplateFrame) -> str:
    return as_text(frame.document(document.get(name)), f"its {name}")


def _root(document: Mapping[str, Json], frame: TemplateFrame) -> str:
    here = frame.context.surroundings
    if "scope" in document:  # an extension of another resource
        scope = _text(document, "scope", frame)
        return scope.rstrip("/") if scope.startswith("/") else f"{here.root()}/providers/{scope}"
    chosen = {
        name: _text(document, name, frame) for name in ("subscriptionId", "resourceGroup") if name in document
    }
    return here.root(chosen.get("subscriptionId"), chosen.get("resourceGroup"))


def _ordered(resources: Iterable[_Resource]) -> Iterator[_Resource]:
    by_id: dict[str, _Resource] = {}
    for resource in resources:
        if resource.id.lower() in by_id:
            raise InvalidTemplateError("the template defines it twice", f"resource {resource.name}")
        by_id[resource.id.lower()] = resource
    sorter = TopologicalSorter[str]({own: () for own in by_id})  # so that the rest stays as it is written
    for own, resource in by_id.items():
        before = (other.lower() for other in resource.dependencies())
        sorter.add(own, *dict.fromkeys(other for other in before if other in by_id))
    try:
        order = list(sorter.static_order())
    except CycleError as error:
        circle = " -> ".join(by_id[own].name for own in error.args[1])
        raise InvalidTemplateError(f"its resources depend on each other in a circle: {circle}") from None
    return (by_id[own] for own in order)
