"""Faults of single endpoints, through the API."""

import msgspec
import pytest

from fairwarning.core.scope import Blueprint
from fairwarning.core.wire import Json
from fairwarning.engine.faults import Ailment
from fairwarning.operator import shapes
from tests.operator.office import office

WEB = Blueprint(name="web", count=2)


@pytest.mark.parametrize("ailment", Ailment)
def test_an_endpoint_is_made_ill_and_healed(ailment: Ailment) -> None:
    desk = office(WEB)

    ill = desk.fine("PUT", "/machines/web_0/fault", {"fault": ailment.value, "lasts": "30s", "delay": "1s"})
    other = desk.machine("web_1").fault
    well = desk.fine("DELETE", "/machines/web_0/fault")

    assert msgspec.json.decode(ill, type=shapes.Machine).fault is ailment
    assert other is None
    assert msgspec.json.decode(well, type=shapes.Machine).fault is None


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


def test_a_machine_that_is_not_there_has_no_endpoint_to_fail() -> None:
    assert office(WEB).refused("PUT", "/machines/web_9/fault", {"fault": "429"}).status == 404


def test_a_scope_in_a_group_is_found_by_its_whole_name() -> None:
    desk = office(Blueprint(name="web", group="shop"))

    assert desk.scope("shop/web").machines == ["web_0"]
