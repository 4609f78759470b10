"""Deploys a template: puts its resources one after the other, each through the PUT handler of its type."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from fairwarning.arm import network
from fairwarning.arm.compute.types import FIND_DOCUMENTS
from fairwarning.arm.context import SUBSCRIPTION, TENANT, ArmContext
from fairwarning.arm.documents import Document, get_fields, get_items, get_path, overlay
from fairwarning.arm.errors import (
    AzureError,
    DeploymentOverError,
    InvalidTemplateError,
    check_resource_name,
    translate,
)
from fairwarning.arm.messages import ArmRequest, Handler
from fairwarning.arm.resource_ids import REFERENCE
from fairwarning.arm.state import ArmState
from fairwarning.arm.templates.budget import OverBudgetError
from fairwarning.arm.templates.coercion import coerce
from fairwarning.arm.templates.context import DeploymentTarget
from fairwarning.arm.templates.evaluator import run_in_loop
from fairwarning.arm.templates.plan import PlannedResource, find_secrets, outputs, plan
from fairwarning.arm.templates.secrets import (
    blanked,
    given_secrets,
    is_secret,
    redacted,
    redacted_text,
    shown_parameters,
)
from fairwarning.core.document.render import Json
from fairwarning.core.errors import ContendedError, FairWarningError, StorageError

_LONGEST_MESSAGE = 2_000
_NAME = re.compile(r"[-\w.()]{1,64}", re.ASCII)
_ROOT = re.compile(r"/subscriptions/([^/]+)(?:/resourceGroups/([^/]+))?/.*", re.IGNORECASE)

T = TypeVar("T")
#: The PUT handlers of resource types, in lower case; other types are stored as they are, or refused.
Puts = Mapping[str, Handler]


async def check_and_plan(
    context: ArmContext, request: ArmRequest, group: Document, puts: Puts
) -> tuple[ArmRequest, tuple[PlannedResource, ...], Json]:
    """Return the request with its budget and secrets, the resources to deploy, and the parameters to show.

    Raises:
        AzureError: the deployment is known to be invalid before anything is deployed.
    """
    if request.budget is None:
        context.evaluator.admit()
    properties = get_path(request.fields(), "properties")
    inputs = get_path(properties, "template"), get_path(properties, "parameters")
    budget = request.budget or context.evaluator.budget()
    secrets = request.secrets | await _evaluate(context, request, partial(given_secrets, *inputs, budget))
    request = replace(request, budget=budget, secrets=secrets)
    if _NAME.fullmatch(request.names["name"]) is None:
        message = f"The deployment name '{request.names['name']}' is invalid."
        raise AzureError(400, "InvalidDeploymentName", message)
    if not isinstance(properties, dict):
        raise AzureError(400, "InvalidRequestContent", "The request content has no object 'properties'.")
    for link in ("templateLink", "parametersLink"):
        if get_path(properties, link) is not None:
            problem = InvalidTemplateError(f"{link} is not supported; send its content instead")
            raise await _invalid_template(context, request, problem)
    if str(get_path(properties, "mode") or "Incremental").lower() != "incremental":
        message = "The deployment mode must be Incremental; Complete is not supported."
        raise AzureError(400, "InvalidDeploymentMode", message)
    target = _target(context, request, group, {})
    resources = await _evaluate(context, request, partial(plan, *inputs, target, budget))
    for resource in resources:
        if resource.type.lower() not in puts and not network.is_stored_type(resource.type):
            message = (
                f"No registered resource provider found for API version '{resource.api_version}' "
                f"for type '{resource.type}', which resource '{resource.name}' is of."
            )
            raise AzureError(400, "NoRegisteredProviderFound", redacted_text(message, secrets))
    parameters = await _evaluate(context, request, partial(shown_parameters, *inputs, secrets, budget))
    return request, resources, parameters


async def _evaluate(context: ArmContext, request: ArmRequest, work: Callable[[], T]) -> T:
    """Return the result of ``work``, which runs outside the event loop; invalid templates are refused."""
    try:
        return await context.evaluator.run(work)
    except InvalidTemplateError as problem:
        raise await _invalid_template(context, request, problem) from problem


async def deploy(
    context: ArmContext, request: ArmRequest, document: Document, work: Json, puts: Puts
) -> Document:
    """Deploy the template in ``work`` and return the result of the deployment."""
    group = context.state().require_group(request.names["group"])
    deployed: dict[str, Json] = {}
    budget = request.budget or context.evaluator.budget()
    request = replace(request, budget=budget, deployment=str(document["id"]).lower())
    target = _target(context, request, group, deployed)
    inputs = get_path(work, "template"), get_path(work, "parameters"), target, budget
    steps: list[Document] = []
    result: Document = {"outputs": {}, "error": None}
    try:
        secrets = request.secrets | await context.evaluator.run(partial(find_secrets, *inputs))
        request, context = replace(request, secrets=secrets), context.for_deployment(secrets)
        for planned in await context.evaluator.run(partial(plan, *inputs)):
            began_at = context.engine.clock.now()
            step = await _deploy_resource(context, request, planned, deployed, puts)
            steps.append(step | {"duration": _since(context, began_at)})
            if steps[-1]["error"] is not None:
                result["error"] = deployment_failed([steps[-1]["error"]])
                break
        else:
            result["outputs"] = await context.evaluator.run(
                lambda: blanked(_without_values(outputs(*inputs)), secrets, budget)
            )
    except InvalidTemplateError as problem:
        error = await _invalid_template(context, request, problem)
        result["error"] = deployment_failed([error.body()["error"]])
    result["steps"] = [*steps]
    result["operations"] = [operation for step in steps for operation in get_items(step, "operations")]
    started_at = datetime.fromisoformat(str(get_path(document, "properties", "timestamp")))
    result["duration"] = _since(context, started_at)
    return result


def _since(context: ArmContext, began_at: datetime) -> str:
    return f"PT{(context.engine.clock.now() - began_at).total_seconds():g}S"


def _without_values(declared: Mapping[str, Json]) -> Json:
    """Return the outputs of a deployment, without the values of secrets."""
    return {
        name: {"type": get_path(output, "type")} if is_secret(get_path(output, "type")) else output
        for name, output in declared.items()
    }


async def _deploy_resource(
    context: ArmContext, request: ArmRequest, planned: PlannedResource, deployed: dict[str, Json], puts: Puts
) -> Document:
    """Put one resource of a template and return the outcome."""
    step: Document = {"id": planned.id, "type": planned.type, "error": None, "operations": []}
    put = puts.get(planned.type.lower(), network.put)
    try:
        response = await put(context, await _put_request(context, request, planned))
    except (StorageError, ContendedError, DeploymentOverError):
        raise  # it says nothing about the resource; ``upkeep`` tries again
    except FairWarningError as problem:
        failed = {**step, "error": translate(problem).body()["error"]}
        return get_fields(await context.evaluator.run(partial(redacted, failed, request.secrets)))
    succeeded: Document = {"provisioningState": "Succeeded"}
    if planned.is_deployment:
        inner = get_path(context.state().document(planned.id), "result")
        succeeded["outputs"] = get_path(inner, "outputs")
        step |= {"error": get_path(inner, "error"), "operations": get_items(inner, "operations")}
    else:
        urls = [value for name, value in response.headers if name == "Azure-AsyncOperation"]
        step["operations"] = [urlsplit(url).path.rpartition("/")[2] for url in urls]
    deployed[planned.id.lower()] = overlay(response.body, {"properties": succeeded})
    return step


async def _put_request(context: ArmContext, request: ArmRequest, planned: PlannedResource) -> ArmRequest:
    check_resource_name(planned.name)
    root = _ROOT.fullmatch(planned.id)
    if root is None or root[1].lower() != SUBSCRIPTION:
        message = f"The subscription of '{planned.id}' could not be found."
        raise AzureError(404, "SubscriptionNotFound", message)
    names = {"subscription": root[1], "group": root[2] or "", "name": planned.name.rpartition("/")[2]}
    query = {"api-version": planned.api_version}
    # A deployment needs its secrets, and blanks them itself.
    secrets = frozenset[str]() if planned.is_deployment else request.secrets
    body = await _evaluate(context, request, lambda: blanked(coerce(planned.body()), secrets, planned.budget))
    put = replace(request, method="PUT", path=planned.id, names=names, query=query, body=body)
    return replace(put, if_match="", if_none_match="")


def _target(
    context: ArmContext, request: ArmRequest, group: Document, deployed: Mapping[str, Json]
) -> DeploymentTarget:
    def lookup(resource: str) -> Json | None:
        return deployed.get(resource.lower()) or _find_resource(context.state(), request, resource)

    find, name = run_in_loop(lookup), str(group["name"])
    return DeploymentTarget(
        subscription=SUBSCRIPTION, group=name, group_document=group, tenant=TENANT, lookup=find
    )


def _find_resource(state: ArmState, request: ArmRequest, resource: str) -> Document | None:
    parts = REFERENCE.fullmatch(resource)
    find = None if parts is None else FIND_DOCUMENTS.get(f"microsoft.compute/{parts[2]}".lower())
    if parts is None or find is None:
        return state.document(resource)
    return find(state, replace(request, names={"group": parts[1], "name": parts[3]}))


def deployment_failed(details: Sequence[Json]) -> Json:
    """Return the error of a failed deployment, as clients read it."""
    message = (
        "At least one resource deployment operation failed. "
        "Please list deployment operations for details; the first is given here."
    )
    return {"code": "DeploymentFailed", "message": message, "details": [*details]}


async def _invalid_template(
    context: ArmContext, request: ArmRequest, problem: InvalidTemplateError
) -> AzureError:
    code = "TemplateBudgetExceeded" if isinstance(problem, OverBudgetError) else "InvalidTemplate"
    # Secrets are blanked before the text is cut: half a secret would not be recognised.
    text = await context.evaluator.run(partial(redacted_text, str(problem), request.secrets))
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}..."
    return AzureError(400, code, f"Deployment template validation failed: '{text}'.")
