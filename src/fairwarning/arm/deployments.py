"""Template deployments: how az makes machines, and what they need, in one go.

A deployment is carried out before its PUT is answered. What was left undone by a server that ended is taken
up again when somebody asks how far it is. A deployment runs on for as long as the operations it began do.
"""

import hashlib
import json
from dataclasses import replace
from urllib.parse import quote

from fairwarning.arm import operations
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.compute import availability_sets, cloud_services, scalesets, vms
from fairwarning.arm.context import ArmContext, Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.groups import require_active_group
from fairwarning.arm.resource_ids import page
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.templates.deploy import DEPLOYMENT, Puts, carry_out, checked, failure, items
from fairwarning.arm.templates.plan import PlannedResource
from fairwarning.core.document.render import Json
from fairwarning.core.model import derive_id
from fairwarning.engine.clock import new_event_id

_ALL = f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{DEPLOYMENT}"
_ONE = f"{_ALL}/{{name}}"
_STEPS = "/subscriptions/{subscription}/resourceGroups/{group}/deployments/{name}/operations"
_SECRET = ("securestring", "secureobject")


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Deploy a template."""
    group, name = require_active_group(room, call.names["group"]), call.names["name"]
    resource = _id(group, name)
    if call.budget is None:
        room.evaluator.admit()
        call = replace(call, budget=room.evaluator.budget())
    planned = await checked(room, call, group, PUTS)
    lock = room.lock(resource)
    if lock.locked():
        message = f"Unable to edit or replace deployment '{name}': the previous one is still active."
        raise AzureError(409, "DeploymentActive", message)
    async with lock:
        known = room.document(resource)
        document = _document(room, call, group, planned)
        await room.keep({resource: document})
        done = await carry_out(room, call, document, PUTS)
    shown = await _shown(room, done)
    facts = shown["properties"]
    accepted: Document = {**(facts if isinstance(facts, dict) else {}), "provisioningState": "Accepted"}
    accepted = {
        word: accepted[word] for word in accepted if word not in ("outputs", "outputResources", "error")
    }
    where = f"{call.base}{resource}/operationStatuses/{_ticket(document)}?api-version={quote(call.version)}"
    headers = (("Azure-AsyncOperation", where), operations.hint(room))
    status = 201 if known is None else 200
    return ArmResponse(status=status, body={**shown, "properties": accepted}, headers=headers)


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return a deployment: how far it is, and once it is done what it has to say."""
    return ArmResponse(body=await _shown(room, await _taken_up(room, call)))


async def head(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say whether there is such a deployment."""
    _known(room, call)
    return ArmResponse(status=204)


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Forget a deployment; what it has deployed stays."""
    group = room.group(call.names["group"])
    resource = _id(group, call.names["name"])
    if room.document(resource) is not None:
        await room.keep({resource: None})
    return ArmResponse(status=204)


async def listed(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the deployments of a group."""
    prefix = _id(room.group(call.names["group"]), "")
    found = [(key, await _shown(room, one)) for key, one in room.documents(prefix)]
    return page(call, ((key, shown.copy) for key, shown in found))


async def validate(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say what a template would deploy, or what is wrong with it."""
    group = require_active_group(room, call.names["group"])
    room.evaluator.admit()
    planned = await checked(room, call, group, PUTS)
    document = _document(room, call, group, planned)
    facts = document["properties"]
    validated: list[Json] = [{"id": one.id} for one in planned]
    told: Document = {**facts} if isinstance(facts, dict) else {}
    told |= {"provisioningState": "Succeeded", "validatedResources": validated}
    del document["work"]
    return ArmResponse(body={**document, "properties": told})


async def status(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say how far a deployment is, as clients ask who wait for it."""
    facts = (await _shown(room, await _taken_up(room, call)))["properties"]
    state, error = get_path(facts, "provisioningState"), get_path(facts, "error")
    again = (operations.hint(room),) if state == "Running" else ()
    return ArmResponse(body={"status": state} | ({} if error is None else {"error": error}), headers=again)


async def steps(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return what became of each resource of a deployment."""
    document = await _taken_up(room, call)
    found: list[Json] = []
    for step in items(document, "result", "steps"):
        found.append(
            await _told(room, str(document["id"]), step, str(get_path(document, "properties", "timestamp")))
        )
    return ArmResponse(body={"value": found})


async def _told(room: ArmContext, deployment: str, step: Json, timestamp: str) -> Json:
    error, resource = get_path(step, "error"), str(get_path(step, "id"))
    running, _ = await _awaited(room, items(step, "operations"))
    state = "Failed" if error is not None else "Running" if running else "Succeeded"
    ticket = derive_id(deployment, resource).replace("-", "")[:16]
    facts: Document = {
        "provisioningOperation": "Create",
        "provisioningState": state,
        "timestamp": timestamp,
        "statusCode": "OK" if error is None else "BadRequest",
        "targetResource": {
            "id": resource,
            "resourceType": get_path(step, "type"),
            "resourceName": resource.rpartition("/")[2],
        },
    }
    if error is not None:
        facts["statusMessage"] = {"status": "Failed", "error": error}
    return {"id": f"{deployment}/operations/{ticket}", "operationId": ticket, "properties": facts}


async def _taken_up(room: ArmContext, call: ArmRequest) -> Document:
    """Return a deployment; one that nobody carries out any more is carried out now."""
    document = _known(room, call)
    lock = room.lock(str(document["id"]))
    if "work" not in document or lock.locked():
        return document
    async with lock:
        return await carry_out(room, call, document, PUTS)


async def _shown(room: ArmContext, document: Document) -> Document:
    """Return a deployment as clients see it."""
    facts: Document = {}
    given = document["properties"]
    facts |= given if isinstance(given, dict) else {}
    shown = {word: document[word] for word in ("id", "name", "type")}
    if "work" in document:
        return {**shown, "properties": facts}
    result = document["result"]
    running, problem = await _awaited(room, items(result, "operations"))
    error = get_path(result, "error") or problem
    state = "Running" if running else "Succeeded" if error is None else "Failed"
    facts |= {"provisioningState": state, "duration": get_path(result, "duration")}
    if state == "Succeeded":
        ids: list[Json] = [{"id": get_path(step, "id")} for step in items(result, "steps")]
        facts |= {"outputs": get_path(result, "outputs"), "outputResources": ids}
    if state == "Failed":
        facts["error"] = error
    return {**shown, "properties": facts}


async def _awaited(room: ArmContext, waits: list[Json]) -> tuple[bool, Json]:
    """Return whether any of the operations is under way, and what went wrong with those that ended."""
    ends = [await operations.outcome(room, str(one)) for one in waits]
    running = any(get_path(end, "status") == "InProgress" for end in ends)
    errors = [error for end in ends if (error := get_path(end, "error")) is not None]
    return running, failure(errors) if errors else None


def _document(
    room: ArmContext, call: ArmRequest, group: Document, planned: tuple[PlannedResource, ...]
) -> Document:
    facts = get_path(call.fields(), "properties")
    template, parameters = get_path(facts, "template"), get_path(facts, "parameters")
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return {
        "id": _id(group, call.names["name"]),
        "name": call.names["name"],
        "type": DEPLOYMENT,
        "properties": {
            "templateHash": str(int.from_bytes(digest[:8])),
            "parameters": _parameters(template, parameters),
            "mode": "Incremental",
            "provisioningState": "Running",
            "timestamp": operations.instant(room.engine.clock.now()),
            "duration": "PT0S",
            "correlationId": new_event_id().lower(),
            "providers": _providers(planned),
            "dependencies": [],
        },
        "work": {"template": template, "parameters": parameters},
    }


def _parameters(template: Json, given: Json) -> Json:
    """Return what was given, without what must not be told."""
    declared = get_path(template, "parameters")
    shown: Document = {}
    for name, declaration in declared.items() if isinstance(declared, dict) else ():
        kind = str(get_path(declaration, "type"))
        value = get_path(given, name, "value")
        secret = kind.lower() in _SECRET
        told: Document = {"type": kind[:1].upper() + kind[1:]}
        shown[name] = told if secret else {**told, "value": value}
    return shown


def _providers(planned: tuple[PlannedResource, ...]) -> Json:
    kinds: dict[str, list[Json]] = {}
    for namespace, _, kind in dict.fromkeys(one.type.partition("/") for one in planned):
        kinds.setdefault(namespace, []).append({"resourceType": kind, "locations": [None]})
    return [{"namespace": namespace, "resourceTypes": types} for namespace, types in kinds.items()]


def _known(room: ArmContext, call: ArmRequest) -> Document:
    document = room.document(_id(room.group(call.names["group"]), call.names["name"]))
    if document is None:
        message = f"Deployment '{call.names['name']}' could not be found."
        raise AzureError(404, "DeploymentNotFound", message)
    return document


def _id(group: Document, name: str) -> str:
    return f"{group['id']}/providers/{DEPLOYMENT}/{name}"


def _ticket(document: Document) -> str:
    return str(get_path(document, "properties", "correlationId")).replace("-", "")


PUTS: Puts = {
    "microsoft.compute/virtualmachines": vms.put,
    "microsoft.compute/virtualmachinescalesets": scalesets.put,
    "microsoft.compute/availabilitysets": availability_sets.put,
    "microsoft.compute/cloudservices": cloud_services.put,
    DEPLOYMENT.lower(): put,
}

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _ALL, listed),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("GET", _ONE, get),
    ArmRoute("HEAD", _ONE, head),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("POST", f"{_ONE}/validate", validate),
    ArmRoute("GET", f"{_ONE}/operations", steps),
    ArmRoute("GET", _STEPS, steps),
    ArmRoute("GET", f"{_ONE}/operationStatuses/{{operation}}", status),
)
