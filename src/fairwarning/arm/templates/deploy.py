"""Carries a template out: one resource after the other, each by whoever answers a PUT of its type."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from fairwarning.arm import network, resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, Handler, get_path
from fairwarning.arm.compute import render
from fairwarning.arm.context import SUBSCRIPTION, TENANT, ArmContext, Document
from fairwarning.arm.errors import AzureError, InvalidTemplateError, check_resource_name, translate
from fairwarning.arm.templates.budget import Budget, OverBudgetError
from fairwarning.arm.templates.coercion import coerce
from fairwarning.arm.templates.context import DeploymentTarget
from fairwarning.arm.templates.evaluator import in_loop
from fairwarning.arm.templates.plan import PlannedResource, outputs, plan
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError

_LONGEST_MESSAGE = 2_000
DEPLOYMENT = "Microsoft.Resources/deployments"
_NAME = re.compile(r"[-\w.()]{1,64}", re.ASCII)
_ROOT = re.compile(r"/subscriptions/([^/]+)(?:/resourceGroups/([^/]+))?/.*", re.IGNORECASE)
_COMPUTE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/Microsoft\.Compute/([^/]+)/([^/]+)", re.IGNORECASE
)

#: Who puts a resource, by its type in lower case; the rest is kept as it is, or refused.
Puts = Mapping[str, Handler]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployStep:
    """What became of one resource of a template."""

    id: str
    type: str
    error: Json = None
    operations: tuple[str, ...] = ()

    def document(self) -> Document:
        """Return what is kept of it."""
        return {"id": self.id, "type": self.type, "error": self.error, "operations": [*self.operations]}


async def checked(
    room: ArmContext, call: ArmRequest, group: Document, puts: Puts
) -> tuple[PlannedResource, ...]:
    """Return what is to be deployed, or refuse what is known to be wrong before anything is."""
    if _NAME.fullmatch(call.names["name"]) is None:
        message = f"The deployment name '{call.names['name']}' is invalid."
        raise AzureError(400, "InvalidDeploymentName", message)
    facts = get_path(call.fields(), "properties")
    if not isinstance(facts, dict):
        raise AzureError(400, "InvalidRequestContent", "The request content has no object 'properties'.")
    for word in ("templateLink", "parametersLink"):
        if get_path(facts, word) is not None:
            raise _invalid(InvalidTemplateError(f"{word} is not supported; send its content instead"))
    if str(get_path(facts, "mode") or "Incremental").lower() != "incremental":
        message = "The deployment mode must be Incremental; nothing is deleted by a deployment here."
        raise AzureError(400, "InvalidDeploymentMode", message)
    work = partial(
        plan,
        get_path(facts, "template"),
        get_path(facts, "parameters"),
        _surroundings(room, group, {}),
        budget_of(room, call),
    )
    try:
        planned = await room.evaluator.run(work)
    except InvalidTemplateError as problem:
        raise _invalid(problem) from problem
    for one in planned:
        if one.type.lower() not in puts and not network.keeps(one.type):
            message = (
                f"No registered resource provider found for API version '{one.api_version}' "
                f"for type '{one.type}', which resource '{one.name}' is of."
            )
            raise AzureError(400, "NoRegisteredProviderFound", message)
    return planned


async def carry_out(room: ArmContext, call: ArmRequest, document: Document, puts: Puts) -> Document:
    """Deploy what is still to do and return the deployment with its result."""
    work, group = document["work"], room.group(call.names["group"])
    made: dict[str, Json] = {}
    budget = budget_of(room, call)
    call = replace(call, budget=budget)
    given = get_path(work, "template"), get_path(work, "parameters"), _surroundings(room, group, made), budget
    taken: list[DeployStep] = []
    result: Document = {"outputs": {}, "error": None}
    try:
        for planned in await room.evaluator.run(partial(plan, *given)):
            taken.append(await _deployed(room, call, planned, made, puts))
            if taken[-1].error is not None:
                result["error"] = failure([taken[-1].error])
                break
        else:
            result["outputs"] = await room.evaluator.run(partial(outputs, *given))
    except InvalidTemplateError as problem:
        result["error"] = failure([_invalid(problem).body()["error"]])
    result["steps"] = [step.document() for step in taken]
    result["operations"] = [one for step in taken for one in step.operations]
    began, now = get_path(document, "properties", "timestamp"), room.engine.clock.now()
    result["duration"] = f"PT{(now - datetime.fromisoformat(str(began))).total_seconds():g}S"
    done: Document = {word: value for word, value in document.items() if word != "work"} | {"result": result}
    await room.keep({str(document["id"]): done})
    return done


async def _deployed(
    room: ArmContext, call: ArmRequest, planned: PlannedResource, made: dict[str, Json], puts: Puts
) -> DeployStep:
    """Put one resource of a template, and say what became of it."""
    step = DeployStep(id=planned.id, type=planned.type)
    put = puts.get(planned.type.lower(), network.put)
    try:
        reply = await put(room, await _as_put(room, call, planned))
    except InvalidTemplateError as problem:
        return replace(step, error=_invalid(problem).body()["error"])
    except FairWarningError as problem:
        return replace(step, error=translate(problem).body()["error"])
    if planned.type.lower() != DEPLOYMENT.lower():
        made[planned.id.lower()] = _settled(reply.body, {})
        return replace(step, operations=_begun(reply))
    inner = get_path(room.document(planned.id), "result")
    made[planned.id.lower()] = _settled(reply.body, {"outputs": get_path(inner, "outputs")})
    waits = tuple(str(one) for one in items(inner, "operations"))
    return replace(step, error=get_path(inner, "error"), operations=waits)


async def _as_put(room: ArmContext, call: ArmRequest, planned: PlannedResource) -> ArmRequest:
    check_resource_name(planned.name)
    where = _ROOT.fullmatch(planned.id)
    if where is None or where[1].lower() != SUBSCRIPTION:
        message = f"The subscription of '{planned.id}' could not be found."
        raise AzureError(404, "SubscriptionNotFound", message)
    names = {"subscription": where[1], "group": where[2] or "", "name": planned.name.rpartition("/")[2]}
    query = {"api-version": planned.api_version}
    body = coerce(await room.evaluator.run(planned.body))
    return replace(call, method="PUT", path=planned.id, names=names, query=query, body=body)


def _surroundings(room: ArmContext, group: Document, made: Mapping[str, Json]) -> DeploymentTarget:
    return DeploymentTarget(
        subscription=SUBSCRIPTION,
        group=str(group["name"]),
        group_document=group,
        tenant=TENANT,
        lookup=in_loop(lambda resource: made.get(resource.lower()) or _there(room, resource)),
    )


def _there(room: ArmContext, resource: str) -> Document | None:
    found = _COMPUTE.fullmatch(resource)
    show = None if found is None else _LIVING.get(found[2].lower())
    if found is None or show is None:
        return room.document(resource)
    return show(room, found[1], found[3])


def _machine(room: ArmContext, group: str, name: str) -> Document | None:
    machine = resource_ids.vm(room, group, name)
    return None if machine is None else render.virtual_machine(room, machine)


def _scale_set(room: ArmContext, group: str, name: str) -> Document | None:
    scopes = resource_ids.scopes(room, resource_ids.SCALE_SETS, group, name)
    return render.scale_set(room, scopes) if scopes else None


def _availability_set(room: ArmContext, group: str, name: str) -> Document | None:
    scopes = resource_ids.scopes(room, resource_ids.AVAILABILITY_SETS, group, name)
    return render.availability_set(room, scopes[0]) if scopes else None


#: What stands before the template comes, as it is now.
_LIVING: Mapping[str, Callable[[ArmContext, str, str], Document | None]] = {
    resource_ids.VMS.lower(): _machine,
    resource_ids.SCALE_SETS.lower(): _scale_set,
    resource_ids.AVAILABILITY_SETS.lower(): _availability_set,
}


def _begun(reply: ArmResponse) -> tuple[str, ...]:
    urls = [value for name, value in reply.headers if name == "Azure-AsyncOperation"]
    return tuple(urlsplit(url).path.rpartition("/")[2] for url in urls)


def _settled(document: Json, more: Document) -> Json:
    facts = get_path(document, "properties")
    if not isinstance(document, dict) or not isinstance(facts, dict):
        return document
    return {**document, "properties": {**facts, **more, "provisioningState": "Succeeded"}}


def failure(details: Sequence[Json]) -> Json:
    """Return what clients are told of a deployment that failed."""
    message = (
        "At least one resource deployment operation failed. "
        "Please list deployment operations for details; the first is given here."
    )
    return {"code": "DeploymentFailed", "message": message, "details": [*details]}


def budget_of(room: ArmContext, call: ArmRequest) -> Budget:
    """Return what the templates of a request may still cost."""
    return call.budget or room.evaluator.budget()


def _invalid(problem: InvalidTemplateError) -> AzureError:
    code = "TemplateBudgetExceeded" if isinstance(problem, OverBudgetError) else "InvalidTemplate"
    said = str(problem)
    if len(said) > _LONGEST_MESSAGE:
        said = f"{said[:_LONGEST_MESSAGE]}..."
    return AzureError(400, code, f"Deployment template validation failed: '{said}'.")


def items(document: Json, *path: str) -> list[Json]:
    """Return the list that stands at a path of a document; an empty one if there is none."""
    found = get_path(document, *path)
    return found if isinstance(found, list) else []
