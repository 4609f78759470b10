"""Faults of single metadata endpoints, through the API."""

import msgspec
import pytest

from fairwarning.cli.fault import FAULTS
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.document.render import Json
from fairwarning.operator import schemas
from tests.operator.operator_client import operator_client

WEB = Blueprint(name="web", count=2)


@pytest.mark.parametrize("fault", EndpointFault)
def test_a_fault_is_set_and_cleared(fault: EndpointFault) -> None:
    client = operator_client(WEB)

    faulty = client.call(
        "PUT", "/machines/web_0/fault", {"fault": fault.value, "lasts": "30s", "delay": "1s"}
    )
    other = client.machine("web_1").fault
    cleared = client.call("DELETE", "/machines/web_0/fault")

    assert msgspec.json.decode(faulty, type=schemas.MachineBody).fault is fault
    assert other is None
    assert msgspec.json.decode(cleared, type=schemas.MachineBody).fault is None


FAULTS_SET = [
    pytest.param({"fault": "429", "lasts": "90s"}, "429 for 1m30s", id="for a while"),
    pytest.param({"fault": "500"}, "500 until healed", id="until cleared"),
    pytest.param({"fault": "slow", "delay": "3s", "lasts": "1h"}, "slow by 3s for 1h", id="with a delay"),
]


@pytest.mark.parametrize(("request_body", "reason"), FAULTS_SET)
def test_the_history_names_the_operator_for_a_fault_that_was_set_and_cleared(
    request_body: dict[str, str], reason: str
) -> None:
    client = operator_client(WEB)

    client.call("PUT", "/machines/web_0/fault", {**request_body, "by": "ann"})
    client.call("DELETE", "/machines/web_0/fault?by=bob")

    lines = client.history().history
    assert [(line.kind, line.by, line.reason) for line in lines] == [
        ("fault", "operator", reason),
        ("healed", "operator", request_body["fault"]),
    ]
    assert {(line.scope, *line.resources) for line in lines} == {("web", "web_0")}


def test_clearing_no_fault_is_not_in_the_history() -> None:
    client = operator_client(WEB)

    client.call("DELETE", "/machines/web_0/fault")

    assert client.history().history == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"fault": "plague"}, "fault", id="an unknown fault"),
        pytest.param({"fault": "429", "lasts": "soon"}, "lasts", id="an invalid duration"),
        pytest.param({"fault": "slow", "delay": "x"}, "delay", id="an invalid delay"),
        pytest.param({}, "fault", id="no fault"),
    ],
)
def test_an_invalid_fault_is_refused_naming_the_field(body: Json, field: str) -> None:
    client = operator_client(WEB)

    problem = client.refused("PUT", "/machines/web_0/fault", body)

    assert (problem.status, problem.field) == (422, field)


def test_the_command_line_knows_every_fault() -> None:
    assert {*FAULTS} == {*map(str, EndpointFault), "none"}


def test_an_unknown_machine_cannot_have_a_fault() -> None:
    assert operator_client(WEB).refused("PUT", "/machines/web_9/fault", {"fault": "429"}).status == 404


def test_a_scope_in_a_group_is_found_by_its_whole_name() -> None:
    client = operator_client(Blueprint(name="web", group="shop"))

    assert client.scope("shop/web").machines == ["web_0"]
