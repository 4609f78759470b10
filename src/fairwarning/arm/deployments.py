"""Template deployments: how az creates machines and the resources they need in one request.

The PUT deploys the whole template before it is answered. Its document is stored first, with a member ``work``
that holds the template and its parameters; at the end ``result`` takes the place of ``work``. A server that
stops in between leaves ``work`` behind. The next GET of the deployment then deploys the template again, from
the start: putting a resource twice has the effect of putting it once.

The resources of a template may have started operations (see ``operations``). The deployment is ``Running``
until all of them have ended, and fails if one of them did.
"""

import hashlib
import json
from dataclasses import replace
from urllib.parse import quote

from fairwarning.arm import operations
from fairwarning.arm.compute import availability_sets, cloud_services, scalesets, vms
from fairwarning.arm.context import ArmContext
from fairwarning.arm.documents import Document, deep_merge, get_items, get_path
from fairwarning.arm.errors import AzureError
from fairwarning.arm.groups import require_active_group
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import paginate
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.templates.deploy import DEPLOYMENT, Puts, check_and_plan, deploy, deployment_failed
from fairwarning.arm.templates.plan import PlannedResource
from fairwarning.core.document.render import Json
from fairwarning.core.model import derive_id
from fairwarning.engine.clock import new_event_id

_ALL = f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{DEPLOYMENT}"
_ONE = f"{_ALL}/{{name}}"
_OPERATIONS = "/subscriptions/{subscription}/resourceGroups/{group}/deployments/{name}/operations"
_SECRET = ("securestring", "secureobject")


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Deploy a template."""
    group, name = require_active_group(context, request.names["group"]), request.names["name"]
    resource = _deployment_id(group, name)
    if request.budget is None:
        context.evaluator.admit()
        request = replace(request, budget=context.evaluator.budget())
    resources = await check_and_plan(context, request, group, PUTS)
    lock = context.lock(resource)
    if lock.locked():
        message = f"Unable to edit or replace deployment '{name}': the previous one is still active."
        raise AzureError(409, "DeploymentActive", message)
    async with lock:
        is_new = context.document(resource) is None
        document = _document(context, request, group, resources)
        await context.put_documents({resource: document})
        deployed = await deploy(context, request, document, PUTS)
    rendered = await _render(context, deployed)
    properties = rendered["properties"]
    accepted: Document = {**properties} if isinstance(properties, dict) else {}
    accepted["provisioningState"] = "Accepted"
    for result in ("outputs", "outputResources", "error"):
        accepted.pop(result, None)
    operation = f"{resource}/operationStatuses/{_operation_id(document)}"
    url = f"{request.base}{operation}?api-version={quote(request.version)}"
    headers = (("Azure-AsyncOperation", url), operations.retry_after_header(context))
    body: Document = {**rendered, "properties": accepted}
    return ArmResponse(status=201 if is_new else 200, body=body, headers=headers)


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a deployment: its state, and its outputs once it has succeeded."""
    return ArmResponse(body=await _render(context, await _resume(context, request)))


async def head(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return 204 if the deployment exists."""
    _require(context, request)
    return ArmResponse(status=204)


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a deployment; the resources it deployed stay."""
    group = context.require_group(request.names["group"])
    resource = _deployment_id(group, request.names["name"])
    if context.document(resource) is not None:
        await context.put_documents({resource: None})
    return ArmResponse(status=204)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the deployments of a group."""
    prefix = _deployment_id(context.require_group(request.names["group"]), "")
    deployments = [(key, await _render(context, document)) for key, document in context.documents(prefix)]
    return paginate(request, ((key, deployment.copy) for key, deployment in deployments))


async def validate(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return what a template would deploy, or what is wrong with it."""
    group = require_active_group(context, request.names["group"])
    context.evaluator.admit()
    resources = await check_and_plan(context, request, group, PUTS)
    document = _document(context, request, group, resources)
    del document["work"]
    ids: list[Json] = [{"id": resource.id} for resource in resources]
    validated: Document = {"properties": {"provisioningState": "Succeeded", "validatedResources": ids}}
    return ArmResponse(body=deep_merge(document, validated))


async def get_status(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the state of a deployment, for clients that poll it."""
    properties = (await _render(context, await _resume(context, request)))["properties"]
    state, error = get_path(properties, "provisioningState"), get_path(properties, "error")
    headers = (operations.retry_after_header(context),) if state == "Running" else ()
    return ArmResponse(body={"status": state} | ({} if error is None else {"error": error}), headers=headers)


async def list_operations(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the outcome of each resource of a deployment."""
    document = await _resume(context, request)
    timestamp = str(get_path(document, "properties", "timestamp"))
    rendered: list[Json] = [
        await _render_operation(context, str(document["id"]), step, timestamp)
        for step in get_items(document, "result", "steps")
    ]
    return ArmResponse(body={"value": rendered})


async def _render_operation(context: ArmContext, deployment: str, step: Json, timestamp: str) -> Json:
    error, resource = get_path(step, "error"), str(get_path(step, "id"))
    is_running, _ = await _operation_results(context, get_items(step, "operations"))
    state = "Failed" if error is not None else "Running" if is_running else "Succeeded"
    operation_id = derive_id(deployment, resource).replace("-", "")[:16]
    properties: Document = {
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
        properties["statusMessage"] = {"status": "Failed", "error": error}
    return {
        "id": f"{deployment}/operations/{operation_id}",
        "operationId": operation_id,
        "properties": properties,
    }


async def _resume(context: ArmContext, request: ArmRequest) -> Document:
    """Return a deployment; if an earlier server left it unfinished, deploy it now."""
    document = _require(context, request)
    lock = context.lock(str(document["id"]))
    if "work" not in document or lock.locked():
        return document
    async with lock:
        return await deploy(context, request, document, PUTS)


async def _render(context: ArmContext, document: Document) -> Document:
    """Return a deployment as clients see it, without its template."""
    stored = document["properties"]
    properties: Document = {**stored} if isinstance(stored, dict) else {}
    identity = {member: document[member] for member in ("id", "name", "type")}
    if "work" in document:
        return {**identity, "properties": properties}
    result = document["result"]
    is_running, problem = await _operation_results(context, get_items(result, "operations"))
    error = get_path(result, "error") or problem
    state = "Running" if is_running else "Succeeded" if error is None else "Failed"
    properties |= {"provisioningState": state, "duration": get_path(result, "duration")}
    if state == "Succeeded":
        ids: list[Json] = [{"id": get_path(step, "id")} for step in get_items(result, "steps")]
        properties |= {"outputs": get_path(result, "outputs"), "outputResources": ids}
    if state == "Failed":
        properties["error"] = error
    return {**identity, "properties": properties}


async def _operation_results(context: ArmContext, ids: list[Json]) -> tuple[bool, Json]:
    """Return whether an operation is in progress, and the errors of those that ended."""
    outcomes = [await operations.read_outcome(context, str(operation_id)) for operation_id in ids]
    is_running = any(get_path(outcome, "status") == "InProgress" for outcome in outcomes)
    errors = [error for outcome in outcomes if (error := get_path(outcome, "error")) is not None]
    return is_running, deployment_failed(errors) if errors else None


def _document(
    context: ArmContext, request: ArmRequest, group: Document, resources: tuple[PlannedResource, ...]
) -> Document:
    properties = get_path(request.fields(), "properties")
    template, parameters = get_path(properties, "template"), get_path(properties, "parameters")
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return {
        "id": _deployment_id(group, request.names["name"]),
        "name": request.names["name"],
        "type": DEPLOYMENT,
        "properties": {
            "templateHash": str(int.from_bytes(digest[:8])),
            "parameters": _parameters(template, parameters),
            "mode": "Incremental",
            "provisioningState": "Running",
            "timestamp": operations.format_instant(context.engine.clock.now()),
            "duration": "PT0S",
            "correlationId": new_event_id().lower(),
            "providers": _providers(resources),
            "dependencies": [],
        },
        "work": {"template": template, "parameters": parameters},
    }


def _parameters(template: Json, values: Json) -> Json:
    """Return the parameters of a deployment, without the values of secrets."""
    declarations = get_path(template, "parameters")
    parameters: Document = {}
    for name, declaration in declarations.items() if isinstance(declarations, dict) else ():
        kind = str(get_path(declaration, "type"))
        parameter: Document = {"type": kind[:1].upper() + kind[1:]}
        if kind.lower() not in _SECRET:
            parameter["value"] = get_path(values, name, "value")
        parameters[name] = parameter
    return parameters


def _providers(resources: tuple[PlannedResource, ...]) -> Json:
    kinds: dict[str, list[Json]] = {}
    for namespace, _, kind in dict.fromkeys(resource.type.partition("/") for resource in resources):
        kinds.setdefault(namespace, []).append({"resourceType": kind, "locations": [None]})
    return [{"namespace": namespace, "resourceTypes": types} for namespace, types in kinds.items()]


def _require(context: ArmContext, request: ArmRequest) -> Document:
    document = context.document(
        _deployment_id(context.require_group(request.names["group"]), request.names["name"])
    )
    if document is None:
        message = f"Deployment '{request.names['name']}' could not be found."
        raise AzureError(404, "DeploymentNotFound", message)
    return document


def _deployment_id(group: Document, name: str) -> str:
    return f"{group['id']}/providers/{DEPLOYMENT}/{name}"


def _operation_id(document: Document) -> str:
    return str(get_path(document, "properties", "correlationId")).replace("-", "")


PUTS: Puts = {
    "microsoft.compute/virtualmachines": vms.put,
    "microsoft.compute/virtualmachinescalesets": scalesets.put,
    "microsoft.compute/availabilitysets": availability_sets.put,
    "microsoft.compute/cloudservices": cloud_services.put,
    DEPLOYMENT.lower(): put,
}

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _ALL, list_all),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("GET", _ONE, get),
    ArmRoute("HEAD", _ONE, head),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("POST", f"{_ONE}/validate", validate),
    ArmRoute("GET", f"{_ONE}/operations", list_operations),
    ArmRoute("GET", _OPERATIONS, list_operations),
    ArmRoute("GET", f"{_ONE}/operationStatuses/{{operation}}", get_status),
)
