"""The OpenAPI 3.1 document, made from the table of routes and the types of their bodies."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

import fairwarning
from fairwarning.core.document.render import Json
from fairwarning.operator.route import WITH_BODY, OperatorRoute
from fairwarning.operator.schemas import ProblemBody

_REF = "#/components/schemas/{name}"
#: Where a class name stands in the schemas: as a key, as a title, in a reference.
_CLASS_NAME = re.compile(r'((?<=[{,])"(?=[A-Z]\w*":\{)|"title":"|"#/components/schemas/)(\w+)')
#: Names that were published before the classes got theirs: generated clients rely on them.
_PUBLISHED: Mapping[str, str] = {
    "EndpointFault": "Ailment",
    "EventSource": "Source",
    "EventStatus": "Status",
    "EventType": "Kind",
    "EvictionPolicy": "Eviction",
    "HistoryLineBody": "Line",
    "MachineState": "Condition",
    "PowerState": "Power",
    "RolloutBegunBody": "WalkBegun",
    "RolloutBody": "Walk",
    "RolloutWanted": "WalkWanted",
    "RolloutsBody": "Walks",
}
_NAMES = re.compile(r"\{(\w+)(?::path)?\}")
_PROBLEM: Json = {
    "description": "refused",
    "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
}

Object = dict[str, Json]


def document(routes: Sequence[OperatorRoute]) -> Object:
    """Return the description of these routes."""
    asked = [route.asked for route in routes]
    answers = [route.answer for route in routes if route.answer is not None]
    schemas = _components([*asked, *answers, ProblemBody])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fairwarning operator API",
            "version": fairwarning.__version__,
            "description": "Warn machines before things happen to them.",
        },
        "security": [{}, {"token": []}],
        "paths": _paths(routes, schemas),
        "components": {
            "schemas": {name: schema for name, schema in schemas.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _components(bodies: Sequence[type[msgspec.Struct]]) -> dict[str, Object]:
    """Return the schemas of these bodies, under the names that clients know."""
    _, schemas = msgspec.json.schema_components(bodies, ref_template=_REF)
    written = msgspec.json.encode(schemas).decode()
    renamed = _CLASS_NAME.sub(lambda found: found[1] + _component(found[2]), written)
    components: dict[str, Object] = msgspec.json.decode(renamed)
    return components


def _component(class_name: str) -> str:
    """Return the published name of the schema that is made from a class."""
    return _PUBLISHED.get(class_name) or class_name.removesuffix("Body")


def _paths(routes: Iterable[OperatorRoute], schemas: Mapping[str, Object]) -> Object:
    paths: dict[str, Object] = {}
    for route in routes:
        path = _NAMES.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    return {path: operations for path, operations in paths.items()}


def _operation(route: OperatorRoute, schemas: Mapping[str, Object]) -> Object:
    schema = schemas[_component(route.asked.__name__)]
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _NAMES.findall(route.path)
    ]
    parameters += [{"name": name, "in": "header", "schema": {"type": "string"}} for name in route.headers]
    operation: Object = {"summary": route.summary, "operationId": _operation_id(route)}
    if route.method in WITH_BODY:
        operation["requestBody"] = {
            "required": bool(schema["required"]),
            "content": {"application/json": {"schema": _ref(route.asked)}},
        }
    else:
        parameters += _query(schema)
    answers: Object = {str(route.status): _answer(route), "4XX": _PROBLEM}
    return {**operation, "parameters": parameters, "responses": answers}


def _query(schema: Object) -> list[Json]:
    properties = schema["properties"]
    members = properties if isinstance(properties, dict) else {}
    return [{"name": name, "in": "query", "schema": member} for name, member in members.items()]


def _answer(route: OperatorRoute) -> Object:
    if route.status == 204:
        return {"description": route.summary}
    # What is no Struct is an object all the same: this document, or each message of a stream.
    schema: Json = {"type": "object"}
    if route.answer is not None:
        schema = _ref(route.answer)
    return {"description": route.summary, "content": {route.media_type: {"schema": schema}}}


def _ref(shape: type[msgspec.Struct]) -> Object:
    return {"$ref": _REF.format(name=_component(shape.__name__))}


def _operation_id(route: OperatorRoute) -> str:
    words = _NAMES.sub("one", route.path.removeprefix("/fleet/v1")).replace(".", "_")
    return "_".join([route.method.lower(), *filter(None, words.split("/"))])
