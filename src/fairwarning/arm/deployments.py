"""Template deployments: how az creates machines and the resources they need in one request.

The PUT deploys the whole template before it is answered. Its document is stored first, and gets a member
``result`` at the end. Meanwhile the template and its parameters are stored apart from it (``_keep_work``). A
server that stops in between leaves a deployment without a result; ``upkeep`` then deploys the template again,
from the start: putting a resource twice has the effect of putting it once. A node that works on a deployment
has a lease on it. A node that carries a deployment on puts its mark into the document (``worker``), and every
step is stored only with the mark of its own node, before there is a result: a node that was suspended and
lost its lease cannot undo what came later.

The resources of a template may have started operations (see ``operations``). The deployment is ``Running``
until all of them have ended, and fails if one of them did.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

from fairwarning.arm import operations
from fairwarning.arm.compute import types as compute
from fairwarning.arm.context import ArmContext, Documents, Edit
from fairwarning.arm.documents import Document, get_fields, get_items, get_path
from fairwarning.arm.errors import AzureError, DeploymentOverError
from fairwarning.arm.messages import ANONYMOUS, ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import paginate
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.arm.templates.deploy import Puts, check_and_plan, deploy, deployment_failed
from fairwarning.arm.templates.plan import DEPLOYMENT, PlannedResource
from fairwarning.core.azure.identity import group_id
from fairwarning.core.document.render import Json
from fairwarning.core.model import Principal, PrincipalKind, derive_id
from fairwarning.engine.clock import new_request_id

_ALL = f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{DEPLOYMENT}"
_ONE = f"{_ALL}/{{name}}"
_FOLDER = f"/providers/{DEPLOYMENT}/".lower()
_OPERATIONS = "/subscriptions/{subscription}/resourceGroups/{group}/deployments/{name}/operations"


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Deploy a template."""
    group, name = context.state().require_active_group(request.names["group"]), request.names["name"]
    resource = _deployment_id(group, name)
    request, resources, parameters = await check_and_plan(context, request, group, PUTS)

    message = f"Unable to edit or replace deployment '{name}': the previous one is still active."
    active = AzureError(409, "DeploymentActive", message)
    properties = get_path(request.fields(), "properties")
    work: Document = {
        "template": get_path(properties, "template"),
        "parameters": get_path(properties, "parameters"),
        "by": request.principal.name,
    }

    def fill(edit: Edit) -> tuple[bool, Document]:
        request.check_deployment(edit.state)
        edit.state.require_active_group(request.names["group"])
        old = edit.state.document(resource)
        # A deployment that is carried on sends the requests of its parts again.
        is_repeated = request.deployment != "" and get_path(old, "deployment") == request.deployment
        if is_running(old) and not is_repeated:
            raise active
        correlation = edit.draft.new_id("correlation")
        document = _document(request, group, resources, parameters, edit.state.now, correlation)
        edit.put({resource: document})
        return old is None, document

    if resource.lower() in context.deploying:
        raise active
    try:
        async with context.work_on(resource):
            is_new, document = await context.change(request.principal, fill)
            await _keep_work(context, document, json.dumps(work))
            await _deploy(context, request, document, work)
    except (AzureError, DeploymentOverError):
        raise
    except BaseException:
        # The client has hung up, or nothing can be stored: the rest is left to ``upkeep``.
        context.interrupt(resource)
        raise
    return _accepted(context, request, document, status=201 if is_new else 200)


def _accepted(context: ArmContext, request: ArmRequest, document: Document, *, status: int) -> ArmResponse:
    current = context.state().document(str(document["id"])) or document
    duration = get_path(current, "result", "duration") or "PT0S"
    body = _shown(current, {"provisioningState": "Accepted", "duration": duration})
    operation = f"{document['id']}/operationStatuses/{_correlation(document).replace('-', '')}"
    url = f"{request.base}{operation}?api-version={quote(request.version)}"
    headers = (("Azure-AsyncOperation", url), context.retry_after)
    return ArmResponse(status=status, body=body, headers=headers)


def is_running(document: Document | None) -> bool:
    """Whether a deployment exists and has not ended."""
    return document is not None and "result" not in document


def is_deployment(key: str) -> bool:
    """Whether a document is a deployment."""
    return _FOLDER in key


def is_part_of_running(state: ArmState, key: str) -> bool:
    """Whether a deployment is inside another that has not ended, and is repeated with the other."""
    outer = get_path(state.document(key), "deployment")
    return is_running(state.document(str(outer or "")))


def keys(state: ArmState) -> list[str]:
    """Return the keys of all deployments."""
    return [key for key in state.view.keys_under(group_id("").lower()) if is_deployment(key)]


def failed_by(state: ArmState, among: Iterable[str], errors: Mapping[str, Json]) -> Documents:
    """Return the deployments that failed by these errors of operations alone, with the errors.

    Once an operation is forgotten, only the deployments that started it know how it ended.
    """
    failed: dict[str, Document | None] = {}
    for key in among:
        document = state.document(key) or {}
        result = get_fields(document, "result")
        found = [errors[str(name)] for name in get_items(result, "operations") if str(name) in errors]
        if found and result.get("error") is None:
            failed[key] = {**document, "result": {**result, "error": deployment_failed(found)}}
    return failed


async def resume(context: ArmContext, key: str) -> None:
    """Deploy the template of an unfinished deployment, from the start.

    A deployment inside an unfinished one is left to that, and one that another node works on to that node.
    """

    def take_over(edit: Edit) -> Document | None:
        document = edit.state.document(key)
        if document is not None and is_running(document) and not is_part_of_running(edit.state, key):
            document = {**document, "worker": edit.draft.new_id("worker")}
            edit.put({key: document})
        return document

    async with context.work_on(key) as alone:
        if not alone:
            return
        # The document may be stored without being in the committed state yet; what a change reads is certain.
        document = await context.change(ANONYMOUS, take_over)
        if document is not None and is_running(document):
            if is_part_of_running(context.committed(), key):
                return
            kept = await context.engine.store.get_value(f"deployment:{_correlation(document)}")
            work = document.get("work") or json.loads(kept or "null")
            group, _, name = key.removeprefix(group_id("").lower()).partition(_FOLDER)
            by = Principal(PrincipalKind.MANAGEMENT, str(get_path(work, "by") or ""))
            request = ArmRequest(method="PUT", path=key, names={"group": group, "name": name}, principal=by)
            with suppress(DeploymentOverError):
                await _deploy(context, request, document, work)
        elif document is not None:
            await _keep_work(context, document, None)
    context.interrupted.discard(key)


async def _deploy(context: ArmContext, request: ArmRequest, document: Document, work: Json) -> None:
    key = str(document["id"])

    def is_current(state: ArmState) -> bool:
        current = state.document(key)
        return current is not None and is_running(current) and _try(current) == _try(document)

    def check(state: ArmState) -> None:
        if not is_current(state):
            raise DeploymentOverError(key)

    request = replace(request, check_deployment=check)
    try:
        if work is None:
            raise AzureError(500, "DeploymentInterrupted", "The deployment was interrupted before it began.")
        result = await deploy(context, request, document, work, PUTS)
    except AzureError as problem:
        result = {"error": deployment_failed([problem.body()["error"]]), "duration": "PT0S"}
    kept = {name: value for name, value in document.items() if name not in ("work", "worker")}
    done: Document = {**kept, "result": result}

    def fill(edit: Edit) -> None:
        if is_current(edit.state):
            edit.put({key: done})

    await context.change(request.principal, fill)
    await _keep_work(context, document, None)


async def _keep_work(context: ArmContext, document: Document, work: str | None) -> None:
    """Store what a deployment is made of, apart from its document; None removes it.

    It may hold secrets, so it must not be in the journal, where documents are.
    """
    await context.engine.store.put_value(f"deployment:{_correlation(document)}", work)


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a deployment: its state, and its outputs once it has succeeded."""
    return ArmResponse(body=await _render(context, _require(context, request)))


async def head(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return 204 if the deployment exists."""
    _require(context, request)
    return ArmResponse(status=204)


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a deployment; the resources it deployed stay."""

    def fill(edit: Edit) -> Document | None:
        resource = _deployment_id(edit.state.require_group(request.names["group"]), request.names["name"])
        document = edit.state.document(resource)
        if document is not None:
            edit.put({resource: None})
        return document

    document = await context.change(request.principal, fill)
    if document is not None:
        await _keep_work(context, document, None)
    return ArmResponse(status=204)


async def cancel(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Refuse to cancel a deployment: its template is deployed when the PUT is answered."""
    properties = (await _render(context, _require(context, request)))["properties"]
    message = (
        f"The deployment '{request.names['name']}' cannot be cancelled because it has provisioning state "
        f"'{get_path(properties, 'provisioningState')}'."
    )
    raise AzureError(409, "DeploymentCannotBeCancelled", message)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the deployments of a group."""
    state = context.state()
    prefix = _deployment_id(state.require_group(request.names["group"]), "")
    deployments = [(key, await _render(context, document)) for key, document in state.documents(prefix)]
    return paginate(request, deployments, dict)


async def validate(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return what a template would deploy, or what is wrong with it."""
    state = context.state()
    group = state.require_active_group(request.names["group"])
    request, resources, parameters = await check_and_plan(context, request, group, PUTS)
    document = _document(request, group, resources, parameters, state.now, derive_id(new_request_id()))
    ids: list[Json] = [{"id": resource.id} for resource in resources]
    return ArmResponse(body=_shown(document, {"provisioningState": "Succeeded", "validatedResources": ids}))


async def get_status(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the state of a deployment, for clients that poll it."""
    properties = (await _render(context, _require(context, request)))["properties"]
    state, error = get_path(properties, "provisioningState"), get_path(properties, "error")
    headers = (context.retry_after,) if state == "Running" else ()
    return ArmResponse(body={"status": state} | ({} if error is None else {"error": error}), headers=headers)


async def list_operations(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the outcome of each resource of a deployment."""
    document = _require(context, request)
    rendered: list[Json] = [
        await _render_operation(context, document, step) for step in get_items(document, "result", "steps")
    ]
    return ArmResponse(body={"value": rendered})


async def _render_operation(context: ArmContext, document: Document, step: Json) -> Json:
    deployment, resource, error = str(document["id"]), str(get_path(step, "id")), get_path(step, "error")
    is_running, _ = await _operation_results(context, get_items(step, "operations"))
    state = "Failed" if error is not None else "Running" if is_running else "Succeeded"
    operation_id = derive_id(deployment, resource).replace("-", "")[:16]
    properties: Document = {
        "provisioningOperation": "Create",
        "provisioningState": state,
        "timestamp": get_path(document, "properties", "timestamp"),
        "duration": get_path(step, "duration") or "PT0S",
        "trackingId": derive_id("tracking", deployment, resource).lower(),
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


async def _render(context: ArmContext, document: Document) -> Document:
    """Return a deployment as clients see it."""
    if is_running(document):
        return _shown(document, {})
    result = document["result"]
    still_running, problem = await _operation_results(context, get_items(result, "operations"))
    error = get_path(result, "error") or problem
    state = "Running" if still_running else "Succeeded" if error is None else "Failed"
    more: Document = {"provisioningState": state, "duration": get_path(result, "duration")}
    if state == "Succeeded":
        ids: list[Json] = [{"id": get_path(step, "id")} for step in get_items(result, "steps")]
        more |= {"outputs": get_path(result, "outputs"), "outputResources": ids}
    if state == "Failed":
        more["error"] = error
    return _shown(document, more)


def _shown(document: Document, more: Document) -> Document:
    """Return a deployment without what only the server reads, and with more properties."""
    identity = {member: document[member] for member in ("id", "name", "type")}
    return {**identity, "properties": get_fields(document, "properties") | more}


async def _operation_results(context: ArmContext, ids: list[Json]) -> tuple[bool, Json]:
    """Return whether an operation is in progress, and the errors of those that ended."""
    outcomes = [await operations.read_outcome(context, str(operation_id)) for operation_id in ids]
    is_running = any(get_path(outcome, "status") == "InProgress" for outcome in outcomes)
    errors = [error for outcome in outcomes if (error := get_path(outcome, "error")) is not None]
    return is_running, deployment_failed(errors) if errors else None


def _document(
    request: ArmRequest,
    group: Document,
    resources: tuple[PlannedResource, ...],
    parameters: Json,
    now: datetime,
    correlation_id: str,
) -> Document:
    template = get_path(request.fields(), "properties", "template")
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return {
        "id": _deployment_id(group, request.names["name"]),
        "name": request.names["name"],
        "type": DEPLOYMENT,
        "properties": {
            "templateHash": str(int.from_bytes(digest[:8])),
            "parameters": parameters,
            "mode": "Incremental",
            "provisioningState": "Running",
            "timestamp": operations.format_instant(now),
            "duration": "PT0S",
            "correlationId": correlation_id.lower(),
            "providers": _providers(resources),
            "dependencies": [],
        },
        "deployment": request.deployment,
    }


def _providers(resources: tuple[PlannedResource, ...]) -> Json:
    kinds: dict[str, list[Json]] = {}
    for namespace, _, kind in dict.fromkeys(resource.type.partition("/") for resource in resources):
        kinds.setdefault(namespace, []).append({"resourceType": kind, "locations": [None]})
    return [{"namespace": namespace, "resourceTypes": types} for namespace, types in kinds.items()]


def _require(context: ArmContext, request: ArmRequest) -> Document:
    state = context.state()
    group = state.require_group(request.names["group"])
    document = state.document(_deployment_id(group, request.names["name"]))
    if document is None:
        message = f"Deployment '{request.names['name']}' could not be found."
        raise AzureError(404, "DeploymentNotFound", message)
    return document


def _deployment_id(group: Document, name: str) -> str:
    return f"{group['id']}/providers/{DEPLOYMENT}/{name}"


def _try(document: Document) -> tuple[str, Json]:
    """Return what tells the tries of a deployment apart: a new request, and a node that carries it on."""
    return _correlation(document), document.get("worker")


def _correlation(document: Document) -> str:
    return str(get_path(document, "properties", "correlationId"))


PUTS: Puts = {**compute.PUTS, DEPLOYMENT.lower(): put}

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _ALL, list_all),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("GET", _ONE, get),
    ArmRoute("HEAD", _ONE, head),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("POST", f"{_ONE}/validate", validate),
    ArmRoute("POST", f"{_ONE}/cancel", cancel),
    ArmRoute("GET", f"{_ONE}/operations", list_operations),
    ArmRoute("GET", _OPERATIONS, list_operations),
    ArmRoute("GET", f"{_ONE}/operationStatuses/{{operation}}", get_status),
)
