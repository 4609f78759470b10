"""Faults of single endpoints, through the API."""

import msgspec
import pytest

from fairwarning.cli.fault import FAULTS
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.endpoint_faults import EndpointFault
from fairwarning.operator import schemas
from tests.operator.operator_client import office

WEB = Blueprint(name="web", count=2)


@pytest.mark.parametrize("ailment", EndpointFault)
def test_an_endpoint_is_made_ill_and_healed(ailment: EndpointFault) -> None:
    desk = office(WEB)

    ill = desk.fine("PUT", "/machines/web_0/fault", {"fault": ailment.value, "lasts": "30s", "delay": "1s"})
    other = desk.machine("web_1").fault
    well = desk.fine("DELETE", "/machines/web_0/fault")

    assert msgspec.json.decode(ill, type=schemas.MachineBody).fault is ailment
    assert other is None
    assert msgspec.json.decode(well, type=schemas.MachineBody).fault is None


WISHES = [
    pytest.param({"fault": "429", "lasts": "90s"}, "429 for 1m30s", id="for a while"),
    pytest.param({"fault": "500"}, "500 until healed", id="for good"),
    pytest.param({"fault": "slow", "delay": "3s", "lasts": "1h"}, "slow by 3s for 1h", id="with a delay"),
]


@pytest.mark.parametrize(("wish", "words"), WISHES)
def test_the_history_tells_who_made_an_endpoint_ill_and_who_healed_it(
    wish: dict[str, str], words: str
) -> None:
    desk = office(WEB)

    desk.fine("PUT", "/machines/web_0/fault", {**wish, "by": "ann"})
    desk.fine("DELETE", "/machines/web_0/fault?by=bob")

    lines = desk.history().history
    assert [(one.kind, one.by, one.reason) for one in lines] == [
        ("fault", "operator:ann", words),
        ("healed", "operator:bob", wish["fault"]),
    ]
    assert {(one.scope, *one.resources) for one in lines} == {("web", "web_0")}


def test_healing_an_endpoint_that_works_is_not_told() -> None:
    desk = office(WEB)

    desk.fine("DELETE", "/machines/web_0/fault")

    assert desk.history().history == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"fault": "plague"}, "fault", id="a fault nobody knows"),
        pytest.param({"fault": "429", "lasts": "soon"}, "lasts", id="a time that is none"),
        pytest.param({"fault": "slow", "delay": "x"}, "delay", id="a delay that is none"),
        pytest.param({}, "fault", id="no fault at all"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(body: Json, field: str) -> None:
    desk = office(WEB)

    problem = desk.refused("PUT", "/machines/web_0/fault", body)

    assert (problem.status, problem.field) == (422, field)


def test_the_command_line_knows_every_fault() -> None:
    assert {*FAULTS} == {*map(str, EndpointFault), "none"}


def test_a_machine_that_is_not_there_has_no_endpoint_to_fail() -> None:
    assert office(WEB).refused("PUT", "/machines/web_9/fault", {"fault": "429"}).status == 404


def test_a_scope_in_a_group_is_found_by_its_whole_name() -> None:
    desk = office(Blueprint(name="web", group="shop"))

    assert desk.scope("shop/web").machines == ["web_0"]
