"""The OpenAPI 3.1 document, generated from the route table and the types of requests and bodies."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

import fairwarning
from fairwarning.core.document.render import Json
from fairwarning.operator.route import WITH_BODY, OperatorRoute
from fairwarning.operator.schemas import ProblemBody

_REF = "#/components/schemas/{name}"
#: The places of a class name in the schemas: a key, a title, a reference.
_CLASS_NAME = re.compile(r'((?<=[{,])"(?=[A-Z]\w*":\{)|"title":"|"#/components/schemas/)(\w+)')
#: Published schema names that differ from the class name; generated clients rely on them.
_PUBLISHED: Mapping[str, str] = {
    "ActorRequest": "Asker",
    "AddMachinesRequest": "Growth",
    "AdvanceRequest": "Advance",
    "ApprovalsPatch": "ApprovalsWanted",
    "CauseRequest": "EventWanted",
    "ChangeSetRequest": "ScopeChange",
    "CreateSetRequest": "ScopeWanted",
    "DeleteRequest": "Removal",
    "EmptyRequest": "Nothing",
    "EndpointFault": "Ailment",
    "EventSource": "Source",
    "EventStatus": "Status",
    "EventType": "Kind",
    "EvictionPolicy": "Eviction",
    "FaultRequest": "FaultWanted",
    "FeedRequest": "FeedStart",
    "HistoryLineBody": "Line",
    "HistoryRequest": "HistoryPage",
    "MachineState": "Condition",
    "PowerRequest": "PowerWanted",
    "PowerState": "Power",
    "RolloutBegunBody": "WalkBegun",
    "RolloutBody": "Walk",
    "RolloutRequest": "WalkWanted",
    "RolloutsBody": "Walks",
    "SpeedRequest": "SpeedWanted",
    "UpgradeRequest": "UpgradeWanted",
}
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_PROBLEM: Json = {
    "description": "refused",
    "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
}

Object = dict[str, Json]


def document(routes: Sequence[OperatorRoute]) -> Object:
    """Return the OpenAPI document of these routes."""
    requests = [route.request_type for route in routes]
    responses = [route.response_type for route in routes if route.response_type is not None]
    schemas = _components([*requests, *responses, ProblemBody])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fairwarning operator API",
            "version": fairwarning.__version__,
            "description": "Azure Scheduled Events for a fleet of your own.",
        },
        "security": [{}, {"token": []}],
        "paths": _paths(routes, schemas),
        "components": {
            "schemas": {name: schema for name, schema in schemas.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _components(types: Sequence[type[msgspec.Struct]]) -> dict[str, Object]:
    """Return the schemas of these types, by their published names."""
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    text = msgspec.json.encode(schemas).decode()
    renamed = _CLASS_NAME.sub(lambda match: match[1] + _component(match[2]), text)
    components: dict[str, Object] = msgspec.json.decode(renamed)
    return components


def _component(class_name: str) -> str:
    """Return the published name of a class's schema."""
    return _PUBLISHED.get(class_name) or class_name.removesuffix("Body")


def _paths(routes: Iterable[OperatorRoute], schemas: Mapping[str, Object]) -> Object:
    paths: dict[str, Object] = {}
    for route in routes:
        path = _PATH_PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    return {path: operations for path, operations in paths.items()}


def _operation(route: OperatorRoute, schemas: Mapping[str, Object]) -> Object:
    schema = schemas[_component(route.request_type.__name__)]
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PATH_PARAMETER.findall(route.path)
    ]
    parameters += [{"name": name, "in": "header", "schema": {"type": "string"}} for name in route.headers]
    operation: Object = {"summary": route.summary, "operationId": _operation_id(route)}
    if route.deprecated:
        operation["deprecated"] = True
    if route.method in WITH_BODY:
        operation["requestBody"] = {
            "required": bool(schema["required"]),
            "content": {"application/json": {"schema": _ref(route.request_type)}},
        }
    else:
        parameters += _query(schema)
    responses: Object = {str(route.status): _response(route), "4XX": _PROBLEM, "503": _PROBLEM}
    return {**operation, "parameters": parameters, "responses": responses}


def _query(schema: Object) -> list[Json]:
    properties = schema["properties"]
    members = properties if isinstance(properties, dict) else {}
    return [{"name": name, "in": "query", "schema": member} for name, member in members.items()]


def _response(route: OperatorRoute) -> Object:
    if route.status == 204:
        return {"description": route.summary}
    # Responses without a type are JSON objects too: this document, or each message of a stream.
    schema: Json = {"type": "object"}
    if route.response_type is not None:
        schema = _ref(route.response_type)
    return {"description": route.summary, "content": {route.media_type: {"schema": schema}}}


def _ref(body: type[msgspec.Struct]) -> Object:
    return {"$ref": _REF.format(name=_component(body.__name__))}


def _operation_id(route: OperatorRoute) -> str:
    words = _PATH_PARAMETER.sub("one", route.path.removeprefix("/fleet/v1")).replace(".", "_")
    return "_".join([route.method.lower(), *filter(None, words.split("/"))])
