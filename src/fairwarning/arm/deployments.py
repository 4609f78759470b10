"""Template deployments: how az makes machines, and what they need, in one go.

A deployment is carried out before its PUT is answered. What was left undone by a server that ended is taken
up again when somebody asks how far it is. A deployment runs on for as long as the operations it began do.
"""

import hashlib
import json
from dataclasses import replace
from urllib.parse import quote

from fairwarning.arm import availability_sets, cloud_services, operations, scalesets, vms
from fairwarning.arm.call import Call, Reply, child
from fairwarning.arm.errors import AzureError
from fairwarning.arm.groups import standing
from fairwarning.arm.places import page
from fairwarning.arm.rollout import DEPLOYMENT, Puts, carry_out, checked, failure, items
from fairwarning.arm.room import Document, Room
from fairwarning.arm.routing import Route
from fairwarning.arm.templates import Planned
from fairwarning.core.document.render import Json
from fairwarning.core.model import derive_id
from fairwarning.engine.clock import new_event_id

_ALL = f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{DEPLOYMENT}"
_ONE = f"{_ALL}/{{name}}"
_STEPS = "/subscriptions/{subscription}/resourceGroups/{group}/deployments/{name}/operations"
_SECRET = ("securestring", "secureobject")


async def put(room: Room, call: Call) -> Reply:
    """Deploy a template."""
    group, name = standing(room, call.names["group"]), call.names["name"]
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
    return Reply(status=status, body={**shown, "properties": accepted}, headers=headers)


async def get(room: Room, call: Call) -> Reply:
    """Return a deployment: how far it is, and once it is done what it has to say."""
    return Reply(body=await _shown(room, await _taken_up(room, call)))


async def head(room: Room, call: Call) -> Reply:
    """Say whether there is such a deployment."""
    _known(room, call)
    return Reply(status=204)


async def delete(room: Room, call: Call) -> Reply:
    """Forget a deployment; what it has deployed stays."""
    group = room.group(call.names["group"])
    resource = _id(group, call.names["name"])
    if room.document(resource) is not None:
        await room.keep({resource: None})
    return Reply(status=204)


async def listed(room: Room, call: Call) -> Reply:
    """Return the deployments of a group."""
    prefix = _id(room.group(call.names["group"]), "")
    found = [(key, await _shown(room, one)) for key, one in room.documents(prefix)]
    return page(call, ((key, shown.copy) for key, shown in found))


async def validate(room: Room, call: Call) -> Reply:
    """Say what a template would deploy, or what is wrong with it."""
    group = standing(room, call.names["group"])
    room.evaluator.admit()
    planned = await checked(room, call, group, PUTS)
    document = _document(room, call, group, planned)
    facts = document["properties"]
    validated: list[Json] = [{"id": one.id} for one in planned]
    told: Document = {**facts} if isinstance(facts, dict) else {}
    told |= {"provisioningState": "Succeeded", "validatedResources": validated}
    del document["work"]
    return Reply(body={**document, "properties": told})


async def status(room: Room, call: Call) -> Reply:
    """Say how far a deployment is, as clients ask who wait for it."""
    facts = (await _shown(room, await _taken_up(room, call)))["properties"]
    state, error = child(facts, "provisioningState"), child(facts, "error")
    again = (operations.hint(room),) if state == "Running" else ()
    return Reply(body={"status": state} | ({} if error is None else {"error": error}), headers=again)


async def steps(room: Room, call: Call) -> Reply:
    """Return what became of each resource of a deployment."""
    document = await _taken_up(room, call)
    found: list[Json] = []
    for step in items(document, "result", "steps"):
        found.append(
            await _told(room, str(document["id"]), step, str(child(document, "properties", "timestamp")))
        )
    return Reply(body={"value": found})


async def _told(room: Room, deployment: str, step: Json, timestamp: str) -> Json:
    error, resource = child(step, "error"), str(child(step, "id"))
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
            "resourceType": child(step, "type"),
            "resourceName": resource.rpartition("/")[2],
        },
    }
    if error is not None:
        facts["statusMessage"] = {"status": "Failed", "error": error}
    return {"id": f"{deployment}/operations/{ticket}", "operationId": ticket, "properties": facts}


async def _taken_up(room: Room, call: Call) -> Document:
    """Return a deployment; one that nobody carries out any more is carried out now."""
    document = _known(room, call)
    lock = room.lock(str(document["id"]))
    if "work" not in document or lock.locked():
        return document
    async with lock:
        return await carry_out(room, call, document, PUTS)


async def _shown(room: Room, document: Document) -> Document:
    """Return a deployment as clients see it."""
    facts: Document = {}
    given = document["properties"]
    facts |= given if isinstance(given, dict) else {}
    shown = {word: document[word] for word in ("id", "name", "type")}
    if "work" in document:
        return {**shown, "properties": facts}
    result = document["result"]
    running, problem = await _awaited(room, items(result, "operations"))
    error = child(result, "error") or problem
    state = "Running" if running else "Succeeded" if error is None else "Failed"
    facts |= {"provisioningState": state, "duration": child(result, "duration")}
    if state == "Succeeded":
        ids: list[Json] = [{"id": child(step, "id")} for step in items(result, "steps")]
        facts |= {"outputs": child(result, "outputs"), "outputResources": ids}
    if state == "Failed":
        facts["error"] = error
    return {**shown, "properties": facts}


async def _awaited(room: Room, waits: list[Json]) -> tuple[bool, Json]:
    """Return whether any of the operations is under way, and what went wrong with those that ended."""
    ends = [await operations.outcome(room, str(one)) for one in waits]
    running = any(child(end, "status") == "InProgress" for end in ends)
    errors = [error for end in ends if (error := child(end, "error")) is not None]
    return running, failure(errors) if errors else None


def _document(room: Room, call: Call, group: Document, planned: tuple[Planned, ...]) -> Document:
    facts = child(call.fields(), "properties")
    template, parameters = child(facts, "template"), child(facts, "parameters")
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
    declared = child(template, "parameters")
    shown: Document = {}
    for name, declaration in declared.items() if isinstance(declared, dict) else ():
        kind = str(child(declaration, "type"))
        value = child(given, name, "value")
        secret = kind.lower() in _SECRET
        told: Document = {"type": kind[:1].upper() + kind[1:]}
        shown[name] = told if secret else {**told, "value": value}
    return shown


def _providers(planned: tuple[Planned, ...]) -> Json:
    kinds: dict[str, list[Json]] = {}
    for namespace, _, kind in dict.fromkeys(one.type.partition("/") for one in planned):
        kinds.setdefault(namespace, []).append({"resourceType": kind, "locations": [None]})
    return [{"namespace": namespace, "resourceTypes": types} for namespace, types in kinds.items()]


def _known(room: Room, call: Call) -> Document:
    document = room.document(_id(room.group(call.names["group"]), call.names["name"]))
    if document is None:
        message = f"Deployment '{call.names['name']}' could not be found."
        raise AzureError(404, "DeploymentNotFound", message)
    return document


def _id(group: Document, name: str) -> str:
    return f"{group['id']}/providers/{DEPLOYMENT}/{name}"


def _ticket(document: Document) -> str:
    return str(child(document, "properties", "correlationId")).replace("-", "")


PUTS: Puts = {
    "microsoft.compute/virtualmachines": vms.put,
    "microsoft.compute/virtualmachinescalesets": scalesets.put,
    "microsoft.compute/availabilitysets": availability_sets.put,
    "microsoft.compute/cloudservices": cloud_services.put,
    DEPLOYMENT.lower(): put,
}

ROUTES: tuple[Route, ...] = (
    Route("GET", _ALL, listed),
    Route("PUT", _ONE, put),
    Route("GET", _ONE, get),
    Route("HEAD", _ONE, head),
    Route("DELETE", _ONE, delete),
    Route("POST", f"{_ONE}/validate", validate),
    Route("GET", f"{_ONE}/operations", steps),
    Route("GET", _STEPS, steps),
    Route("GET", f"{_ONE}/operationStatuses/{{operation}}", status),
)
