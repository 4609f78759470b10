"""The page of the operator API, from its OpenAPI document."""

from collections.abc import Iterator, Mapping

from fairwarning.core.document.render import Json
from fairwarning.operator.openapi import document
from fairwarning.operator.routes import ROUTES
from tools.site.reference.tables import definition, items, kind, member, members, table

HEAD = """\
# Operator API

The command line and the console use this API. It is at the operator address, by default
`http://127.0.0.1:8080`. A server with a token wants `Authorization: Bearer TOKEN`. Requests and answers are
JSON. A refused request gets a [Problem](#problem) as `application/problem+json`. The server has this
description as an OpenAPI document at `/fleet/v1/openapi.json`.
"""


def operator_api() -> str:
    """Return the page."""
    described = document(ROUTES)
    schemas = members(member(described, "components", "schemas"))
    routes = [
        _route(method.upper(), path, operation)
        for path, operations in members(described["paths"]).items()
        for method, operation in members(operations).items()
    ]
    definitions = [definition(name, schema) for name, schema in sorted(schemas.items())]
    return "\n".join([HEAD, "## Routes\n", *routes, "## Bodies\n", *definitions])


def _route(method: str, path: str, operation: Json) -> str:
    summary = str(member(operation, "summary"))
    if member(operation, "deprecated"):
        summary += "; deprecated"
    parts = [f"### {method} {path}\n", f"{summary[0].upper()}{summary[1:]}.\n"]
    parameters = [_parameter(parameter) for parameter in items(member(operation, "parameters"))]
    if parameters:
        parts.append(table(["parameter", "in", "type", ""], parameters))
    parts.append("\n".join(f"- {line}" for line in (*_body(operation), *_answers(operation))) + "\n")
    return "\n".join(parts)


def _parameter(parameter: Json) -> tuple[str, str, str, str]:
    required = "required" if member(parameter, "required") else ""
    place = str(member(parameter, "in"))
    return f"`{member(parameter, 'name')}`", place, kind(member(parameter, "schema")), required


def _body(operation: Json) -> Iterator[str]:
    if body := member(operation, "requestBody"):
        optional = "" if member(body, "required") else ", may be left out"
        yield f"Body: {_content(member(body, 'content'))}{optional}"


def _answers(operation: Json) -> Iterator[str]:
    for status, response in members(member(operation, "responses")).items():
        # Every route is refused in the same way.
        if status.isdigit() and status < "300":
            content = member(response, "content")
            yield f"Answer: {status}, {_content(content)}" if content else f"Answer: {status}, no body"


def _content(content: Json) -> str:
    texts: Mapping[str, Json] = members(content)
    return " or ".join(
        kind(member(value, "schema")) + ("" if media == "application/json" else f" as `{media}`")
        for media, value in texts.items()
    )
