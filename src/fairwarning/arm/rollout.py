"""Carries a template out: one resource after the other, each by whoever answers a PUT of its type."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from fairwarning.arm import network, places, views
from fairwarning.arm.budget import Budget, OverBudgetError
from fairwarning.arm.call import Call, Handler, Reply, child
from fairwarning.arm.coercion import coerce
from fairwarning.arm.context import Surroundings
from fairwarning.arm.errors import AzureError, InvalidTemplate, check_resource_name, translate
from fairwarning.arm.evaluator import in_loop
from fairwarning.arm.room import SUBSCRIPTION, TENANT, Document, Room
from fairwarning.arm.templates import Planned, outputs, plan
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
class Step:
    """What became of one resource of a template."""

    id: str
    type: str
    error: Json = None
    operations: tuple[str, ...] = ()

    def document(self) -> Document:
        """Return what is kept of it."""
        return {"id": self.id, "type": self.type, "error": self.error, "operations": [*self.operations]}


async def checked(room: Room, call: Call, group: Document, puts: Puts) -> tuple[Planned, ...]:
    """Return what is to be deployed, or refuse what is known to be wrong before anything is."""
    if _NAME.fullmatch(call.names["name"]) is None:
        message = f"The deployment name '{call.names['name']}' is invalid."
        raise AzureError(400, "InvalidDeploymentName", message)
    facts = child(call.fields(), "properties")
    if not isinstance(facts, dict):
        raise AzureError(400, "InvalidRequestContent", "The request content has no object 'properties'.")
    for word in ("templateLink", "parametersLink"):
        if child(facts, word) is not None:
            raise _invalid(InvalidTemplate(f"{word} is not supported; send its content instead"))
    if str(child(facts, "mode") or "Incremental").lower() != "incremental":
        message = "The deployment mode must be Incremental; nothing is deleted by a deployment here."
        raise AzureError(400, "InvalidDeploymentMode", message)
    work = partial(
        plan,
        child(facts, "template"),
        child(facts, "parameters"),
        _surroundings(room, group, {}),
        budget_of(room, call),
    )
    try:
        planned = await room.evaluator.run(work)
    except InvalidTemplate as problem:
        raise _invalid(problem) from problem
    for one in planned:
        if one.type.lower() not in puts and not network.keeps(one.type):
            message = (
                f"No registered resource provider found for API version '{one.api_version}' "
                f"for type '{one.type}', which resource '{one.name}' is of."
            )
            raise AzureError(400, "NoRegisteredProviderFound", message)
    return planned


async def carry_out(room: Room, call: Call, document: Document, puts: Puts) -> Document:
    """Deploy what is still to do and return the deployment with its result."""
    work, group = document["work"], room.group(call.names["group"])
    made: dict[str, Json] = {}
    budget = budget_of(room, call)
    call = replace(call, budget=budget)
    given = child(work, "template"), child(work, "parameters"), _surroundings(room, group, made), budget
    taken: list[Step] = []
    result: Document = {"outputs": {}, "error": None}
    try:
        for planned in await room.evaluator.run(partial(plan, *given)):
            taken.append(await _deployed(room, call, planned, made, puts))
            if taken[-1].error is not None:
                result["error"] = failure([taken[-1].error])
                break
        else:
            result["outputs"] = await room.evaluator.run(partial(outputs, *given))
    except InvalidTemplate as problem:
        result["error"] = failure([_invalid(problem).body()["error"]])
    result["steps"] = [step.document() for step in taken]
    result["operations"] = [one for step in taken for one in step.operations]
    began, now = child(document, "properties", "timestamp"), room.engine.clock.now()
    result["duration"] = f"PT{(now - datetime.fromisoformat(str(began))).total_seconds():g}S"
    done: Document = {word: value for word, value in document.items() if word != "work"} | {"result": result}
    await room.keep({str(document["id"]): done})
    return done


async def _deployed(room: Room, call: Call, planned: Planned, made: dict[str, Json], puts: Puts) -> Step:
    """Put one resource of a template, and say what became of it."""
    step = Step(id=planned.id, type=planned.type)
    put = puts.get(planned.type.lower(), network.put)
    try:
        reply = await put(room, await _as_put(room, call, planned))
    except InvalidTemplate as problem:
        return replace(step, error=_invalid(problem).body()["error"])
    except FairWarningError as problem:
        return replace(step, error=translate(problem).body()["error"])
    if planned.type.lower() != DEPLOYMENT.lower():
        made[planned.id.lower()] = _settled(reply.body, {})
        return replace(step, operations=_begun(reply))
    inner = child(room.document(planned.id), "result")
    made[planned.id.lower()] = _settled(reply.body, {"outputs": child(inner, "outputs")})
    waits = tuple(str(one) for one in items(inner, "operations"))
    return replace(step, error=child(inner, "error"), operations=waits)


async def _as_put(room: Room, call: Call, planned: Planned) -> Call:
    check_resource_name(planned.name)
    where = _ROOT.fullmatch(planned.id)
    if where is None or where[1].lower() != SUBSCRIPTION:
        message = f"The subscription of '{planned.id}' could not be found."
        raise AzureError(404, "SubscriptionNotFound", message)
    names = {"subscription": where[1], "group": where[2] or "", "name": planned.name.rpartition("/")[2]}
    query = {"api-version": planned.api_version}
    body = coerce(await room.evaluator.run(planned.body))
    return replace(call, method="PUT", path=planned.id, names=names, query=query, body=body)


def _surroundings(room: Room, group: Document, made: Mapping[str, Json]) -> Surroundings:
    return Surroundings(
        subscription=SUBSCRIPTION,
        group=str(group["name"]),
        group_document=group,
        tenant=TENANT,
        lookup=in_loop(lambda resource: made.get(resource.lower()) or _there(room, resource)),
    )


def _there(room: Room, resource: str) -> Document | None:
    found = _COMPUTE.fullmatch(resource)
    show = None if found is None else _LIVING.get(found[2].lower())
    if found is None or show is None:
        return room.document(resource)
    return show(room, found[1], found[3])


def _machine(room: Room, group: str, name: str) -> Document | None:
    machine = places.vm(room, group, name)
    return None if machine is None else views.virtual_machine(room, machine)


def _scale_set(room: Room, group: str, name: str) -> Document | None:
    scopes = places.scopes(room, places.SCALE_SETS, group, name)
    return views.scale_set(room, scopes) if scopes else None


def _availability_set(room: Room, group: str, name: str) -> Document | None:
    scopes = places.scopes(room, places.AVAILABILITY_SETS, group, name)
    return views.availability_set(room, scopes[0]) if scopes else None


#: What stands before the template comes, as it is now.
_LIVING: Mapping[str, Callable[[Room, str, str], Document | None]] = {
    places.VMS.lower(): _machine,
    places.SCALE_SETS.lower(): _scale_set,
    places.AVAILABILITY_SETS.lower(): _availability_set,
}


def _begun(reply: Reply) -> tuple[str, ...]:
    urls = [value for name, value in reply.headers if name == "Azure-AsyncOperation"]
    return tuple(urlsplit(url).path.rpartition("/")[2] for url in urls)


def _settled(document: Json, more: Document) -> Json:
    facts = child(document, "properties")
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


def budget_of(room: Room, call: Call) -> Budget:
    """Return what the templates of a request may still cost."""
    return call.budget or room.evaluator.budget()


def _invalid(problem: InvalidTemplate) -> AzureError:
    code = "TemplateBudgetExceeded" if isinstance(problem, OverBudgetError) else "InvalidTemplate"
    said = str(problem)
    if len(said) > _LONGEST_MESSAGE:
        said = f"{said[:_LONGEST_MESSAGE]}..."
    return AzureError(400, code, f"Deployment template validation failed: '{said}'.")


def items(document: Json, *path: str) -> list[Json]:
    """Return the list that stands at a path of a document; an empty one if there is none."""
    found = child(document, *path)
    return found if isinstance(found, list) else []
