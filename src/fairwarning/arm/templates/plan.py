"""The plan of a template: which resources it declares, in which order, and with which bodies.

A template is planned as a whole, so that errors are found before anything is deployed. Only ``reference()``
has to wait: it reads a resource that must be deployed first. A resource's body is therefore evaluated when
the resource is about to be deployed.
"""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import Budget, OverBudgetError
from fairwarning.arm.templates.context import (
    MOST_COPIES,
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
from fairwarning.arm.templates.expressions import find_calls, find_function, type_name
from fairwarning.core.document.render import Json

DEPLOYMENT = "Microsoft.Resources/deployments"
_INSTRUCTIONS = frozenset(
    {
        "apiVersion",
        "comments",
        "condition",
        "copy",
        "dependsOn",
        "metadata",
        "name",
        "resourceGroup",
        "resources",
        "scope",
        "subscriptionId",
        "type",
    }
)


class PlannedResource(NamedTuple):
    """A resource that a template declares; not ``included`` if its condition is false."""

    declaration: Mapping[str, Json]
    frame: TemplateFrame
    id: str
    type: str
    name: str
    api_version: str
    included: bool

    @property
    def budget(self) -> Budget:
        """The budget of the deployment."""
        return self.frame.context.budget

    @property
    def is_deployment(self) -> bool:
        """Whether it is a nested deployment."""
        return self.type.lower() == DEPLOYMENT.lower()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the rest of the template may use for it."""
        return (self.id, self.id.partition("/providers/")[2], f"{self.type}/{self.name}", self.name)

    def body(self) -> dict[str, Json]:
        """Return the document to deploy; it is evaluated now, so its references must be deployed already.

        Raises:
            InvalidTemplateError: it refers to a resource or a property that does not exist.
        """
        with at(f"resource {self.name}"), self.budget.running():
            return self._compose()

    def check(self) -> None:
        """Check everything that can be checked before anything is deployed."""
        with at(f"resource {self.name}"):
            if "reference" not in _check_calls(self._split()[0], self.frame):
                self._compose()

    def _compose(self) -> dict[str, Json]:
        own, nested = self._split()
        document = as_fields(self.frame.document(own), "a resource")
        self.budget.weigh(document)
        if nested is not None:
            as_fields(document["properties"], "properties")["template"] = nested
        return {"type": self.type, "name": self.name, **document}

    def dependencies(self) -> Iterator[str]:
        """Yield the ids of the template's resources that have to be deployed before this one."""
        with at(f"resource {self.name}"):
            for item in as_items(self.frame.document(self.declaration.get("dependsOn")), "dependsOn"):
                ids = self.frame.context.find(as_text(item, "what it depends on"))
                # A name that this resource shares with others refers to the others.
                yield from [other for other in ids if other != self.id] or ids
            yield from self._references()
            yield self.id.rpartition("/")[0].rpartition("/")[0]

    def _references(self) -> Iterator[str]:
        # reference() is a dependency even if dependsOn does not name it.
        for call in find_calls(self._split()[0], self.frame.context.trees):
            if call.name == "reference" and call.arguments:
                try:
                    target = self.frame.evaluation.node(call.arguments[0])
                    yield from self.frame.context.find(as_text(target, "what it refers to"))
                except OverBudgetError:
                    raise
                except InvalidTemplateError:
                    continue  # not a resource of this template; evaluating the body will find it or fail

    def _split(self) -> tuple[dict[str, Json], Json]:
        """Separate the members that this template evaluates from a nested template with inner scope."""
        own = {name: value for name, value in self.declaration.items() if name not in _INSTRUCTIONS}
        properties = own.get("properties")
        if not self.is_deployment or not isinstance(properties, dict):
            return own, None
        options = properties.get("expressionEvaluationOptions")
        has_inner_scope = isinstance(options, dict) and str(options.get("scope")).lower() == "inner"
        if not has_inner_scope or "template" not in properties:
            return own, None
        own["properties"] = {name: value for name, value in properties.items() if name != "template"}
        return own, properties["template"]


def plan(
    template: Json, parameters: Json, target: DeploymentTarget, budget: Budget
) -> tuple[PlannedResource, ...]:
    """Return the resources of a template, each after the resources it depends on.

    Raises:
        InvalidTemplateError: the template cannot be deployed.
    """
    with at("template"), budget.running():
        context = TemplateContext(template, parameters, target, budget)
        resources = [resource for resource in _expand_resources(template, context) if resource.included]
        for resource in resources:
            resource.check()
        for name, output in section(template, "outputs").items():
            with at(f"output {name}"):
                _check_calls(output, TemplateFrame(context))
        return tuple(_in_order(resources))


def outputs(template: Json, parameters: Json, target: DeploymentTarget, budget: Budget) -> dict[str, Json]:
    """Return the outputs of a deployed template, with their names in ARM's camel case.

    Raises:
        InvalidTemplateError: an output refers to something that does not exist.
    """
    values: dict[str, Json] = {}
    with at("template"), budget.running():
        context = TemplateContext(template, parameters, target, budget)
        _expand_resources(template, context)
        for name, output in section(template, "outputs").items():
            with at(f"output {name}"):
                declared = as_fields(output, "an output")
                kind = as_text(declared.get("type"), "its type")
                if _is_included(declared, TemplateFrame(context)):
                    value = TemplateFrame(context).document(declared.get("value"))
                    values[_camel(name)] = {"type": kind[0].upper() + kind[1:], "value": value}
        budget.weigh(values)
    return values


def find_secrets(
    template: Json, parameters: Json, target: DeploymentTarget, budget: Budget
) -> frozenset[str]:
    """Return the secrets that a template is given, or declares itself.

    Raises:
        InvalidTemplateError: the template cannot be deployed.
    """
    with at("template"), budget.running():
        return TemplateContext(template, parameters, target, budget).secrets()


def _camel(name: str) -> str:
    # VMSS becomes vmss, VMSSName vmssName, Name name: the last capital may begin the next word.
    capitals = len(name) - len(name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    lowered = capitals if capitals in (0, 1, len(name)) else capitals - 1
    return name[:lowered].lower() + name[lowered:]


def _check_calls(document: Json, frame: TemplateFrame) -> set[str]:
    """Check that all functions in the expressions exist, and return their names."""
    calls = list(find_calls(document, frame.context.trees))
    for call in calls:
        find_function(call, frame.functions)
    return {call.name for call in calls}


def _is_included(document: Mapping[str, Json], frame: TemplateFrame) -> bool:
    condition = frame.document(document.get("condition", True))
    if not isinstance(condition, bool):
        raise InvalidTemplateError(f"its condition must be a boolean, not {type_name(condition)}")
    return condition


def _expand_resources(template: Json, context: TemplateContext) -> list[PlannedResource]:
    resources: list[PlannedResource] = []
    declarations = as_fields(template, "a template").get("resources")
    for declaration in as_items(declarations, "resources"):
        for resource in _expand(declaration, TemplateFrame(context), None):
            if len(resources) == MOST_COPIES:
                raise InvalidTemplateError(f"it has more than {MOST_COPIES} resources")
            resources.append(resource)
    return resources


def _expand(
    declaration: Json, frame: TemplateFrame, parent: PlannedResource | None
) -> Iterator[PlannedResource]:
    document = as_fields(declaration, "a resource")
    with at(f"resource {document.get('name')}"):
        copy = document.get("copy")
        if copy is None:
            yield from _with_children(document, frame, parent)
            return
        loop = as_fields(copy, "copy")
        name = as_text(loop.get("name"), "the name of a copy")
        ids = frame.context.named.setdefault(name.lower(), [])
        for index in range(frame.count(loop)):
            resources = list(_with_children(document, frame.iteration(name, index), parent))
            ids.append(resources[0].id)
            yield from resources


def _with_children(
    document: Mapping[str, Json], frame: TemplateFrame, parent: PlannedResource | None
) -> Iterator[PlannedResource]:
    kind, name = _text(document, "type", frame), _text(document, "name", frame)
    if parent is not None and "/" not in kind:
        kind, name = f"{parent.type}/{kind}", f"{parent.name}/{name}"
    with at(f"resource {name}"):
        resource = PlannedResource(
            declaration=document,
            frame=frame,
            id=resource_id(_root(document, frame), kind, name),
            type=kind,
            name=name,
            api_version=_text(document, "apiVersion", frame),
            included=_is_included(document, frame),
        )
    for alias in {alias.lower() for alias in resource.names}:
        frame.context.named.setdefault(alias, []).append(resource.id)
    yield resource
    for child in as_items(document.get("resources"), "resources"):
        yield from _expand(child, frame, resource)


def _text(document: Mapping[str, Json], name: str, frame: TemplateFrame) -> str:
    return as_text(frame.document(document.get(name)), f"its {name}")


def _root(document: Mapping[str, Json], frame: TemplateFrame) -> str:
    target = frame.context.target
    if "scope" in document:  # an extension of another resource
        scope = _text(document, "scope", frame)
        return scope.rstrip("/") if scope.startswith("/") else f"{target.root()}/providers/{scope}"
    chosen = {
        name: _text(document, name, frame) for name in ("subscriptionId", "resourceGroup") if name in document
    }
    return target.root(chosen.get("subscriptionId"), chosen.get("resourceGroup"))


def _in_order(resources: Iterable[PlannedResource]) -> Iterator[PlannedResource]:
    by_id: dict[str, PlannedResource] = {}
    for resource in resources:
        if resource.id.lower() in by_id:
            raise InvalidTemplateError("the template defines it twice", f"resource {resource.name}")
        by_id[resource.id.lower()] = resource
    # Adding all resources first keeps the order of the template where dependencies leave it open.
    sorter = TopologicalSorter[str](dict.fromkeys(by_id, ()))
    for key, resource in by_id.items():
        before = (other.lower() for other in resource.dependencies())
        sorter.add(key, *dict.fromkeys(other for other in before if other in by_id))
    try:
        order = list(sorter.static_order())
    except CycleError as error:
        circle = " -> ".join(by_id[key].name for key in error.args[1])
        raise InvalidTemplateError(f"circular dependency between resources: {circle}") from None
    return (by_id[key] for key in order)
