"""The OpenAPI document is valid and complete, and the server conforms to it.

The libraries that check this take a second to import, and every worker imports this module.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.operator.openapi import document
from fairwarning.operator.route import OperatorRoute
from fairwarning.operator.routes import ROUTES
from tests.operator.operator_client import URL, operator_client

if TYPE_CHECKING:
    from schemathesis import Case
    from schemathesis.specs.openapi.schemas import OpenApiOperation

WEB = Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5))


def test_the_document_is_valid_openapi() -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator

    OpenAPIV31SpecValidator(document(ROUTES)).validate()


def test_every_route_is_in_the_document() -> None:
    paths = document(ROUTES)["paths"]

    assert isinstance(paths, dict)
    described = {(path, method) for path, methods in paths.items() for method in members(methods)}
    assert described == {(route.path.replace(":path", ""), route.method.lower()) for route in ROUTES}


def test_every_operation_has_an_id_of_its_own() -> None:
    paths = document(ROUTES)["paths"]

    operations = [operation for methods in members(paths).values() for operation in members(methods).values()]
    ids = [str(members(operation)["operationId"]) for operation in operations]
    assert sorted(set(ids)) == sorted(ids)


def members(value: Json) -> dict[str, Json]:
    """Return the members of a JSON object."""
    assert isinstance(value, dict)
    return value


def operation(route: OperatorRoute) -> "OpenApiOperation":
    """Return one operation as the served document describes it, over a small fleet."""
    import schemathesis

    client = operator_client(WEB)
    # After shutdown, feeds end and can be read to their end.
    client.shutdown.set()
    described = schemathesis.openapi.from_asgi(
        "/fleet/v1/openapi.json", client.app, headers={"Host": "127.0.0.1:8080"}
    )
    return described[route.path.replace(":path", "")][route.method]


def conforms(case: "Case[OpenApiOperation]") -> None:
    """Send one request and compare the response with the document."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    case.call_and_validate(
        base_url=URL,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )


# Not schemathesis' own parameter, which gives every operation the same node id.
@pytest.mark.slow
@pytest.mark.parametrize("route", [pytest.param(one, id=f"{one.method} {one.path}") for one in ROUTES])
def test_no_request_makes_the_server_fail_or_deviate_from_the_document(
    route: OperatorRoute,
) -> None:
    from schemathesis.generation.hypothesis.builder import (
        HypothesisTestConfig,
        HypothesisTestMode,
        create_test,
    )

    subject = operation(route)
    plan = HypothesisTestConfig(
        project=subject.schema.config,
        modes=[HypothesisTestMode.COVERAGE, HypothesisTestMode.FUZZING],
        settings=settings(max_examples=4, suppress_health_check=list(HealthCheck)),
    )

    create_test(operation=subject, test_func=conforms, config=plan)()
