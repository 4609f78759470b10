"""Forms, and the errors in them."""

from datetime import timedelta

import pytest

from fairwarning.console.forms import CHOICES, ROLLOUT_DEFAULTS, Form, read_draft, read_rollout
from fairwarning.console.page import Fields
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.commands import StartRollout
from fairwarning.core.model import EvictionPolicy, ScopeId, ScopeKind
from tests.fleet_harness import NOON, FleetHarness, span

HOSTILE = '<script>alert("x")</script>'


def written(**values: str) -> Fields:
    """Return a form with these values in it."""
    return Fields(tuple(values.items()))


def blueprint(choice: str, **values: str) -> Blueprint:
    """Return what a faultless form asks for."""
    found = read_draft(CHOICES[choice], written(**values), NOON)
    assert found.form.errors == {}
    return found.blueprint


def errors(choice: str, **values: str) -> dict[str, str]:
    """Return what is wrong with a form."""
    return read_draft(CHOICES[choice], written(**values), NOON).form.errors


@pytest.mark.parametrize(
    ("choice", "values", "wanted"),
    [
        pytest.param(
            "scale-set",
            {"name": "web"},
            Blueprint(name="web", kind=ScopeKind.SCALE_SET, count=3),
            id="a scale set as the form suggests it",
        ),
        pytest.param(
            "scale-set",
            {"name": "web", "notification": "on", "delay": "7", "zones": "1, 2", "mode": "flexible"},
            Blueprint(
                name="web",
                kind=ScopeKind.FLEXIBLE_SET,
                count=3,
                zones=("1", "2"),
                terminate_notice=timedelta(minutes=7),
            ),
            id="a flexible set in two zones that wants notice",
        ),
        pytest.param(
            "scale-set",
            {"name": "web", "notification": "off", "delay": "99"},
            Blueprint(name="web", count=3),
            id="a delay does not matter while notification is off",
        ),
        pytest.param(
            "scale-set",
            {"name": "cheap", "priority": "spot", "eviction": "Delete", "count": "0"},
            Blueprint(name="cheap", count=0, spot=True, eviction=EvictionPolicy.DELETE),
            id="an empty Spot set",
        ),
        pytest.param(
            "availability-set",
            {"name": "app", "count": "4", "update_domains": "3", "tags": "role=db\n\n owner = ops = us "},
            Blueprint(
                name="app",
                kind=ScopeKind.AVAILABILITY_SET,
                count=4,
                update_domains=3,
                tags=(("role", "db"), ("owner", "ops = us")),
            ),
            id="an availability set with tags",
        ),
        pytest.param(
            "vm", {"name": " db "}, Blueprint(name="db", kind=ScopeKind.STANDALONE), id="a single machine"
        ),
        pytest.param(
            "spot-vm",
            {"name": "batch", "eviction": "Delete"},
            Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True, eviction=EvictionPolicy.DELETE),
            id="a Spot machine",
        ),
        pytest.param(
            "cloud-service",
            {"name": "shop", "roles": "FrontEnd=2\nBackEnd=1"},
            Blueprint(name="shop", kind=ScopeKind.CLOUD_SERVICE, roles=(("FrontEnd", 2), ("BackEnd", 1))),
            id="a cloud service with two roles",
        ),
    ],
)
def test_a_faultless_form_asks_for_what_it_says(
    choice: str, values: dict[str, str], wanted: Blueprint
) -> None:
    assert blueprint(choice, **values) == wanted


@pytest.mark.parametrize(
    ("choice", "values", "field", "words"),
    [
        pytest.param("scale-set", {"name": ""}, "name", "a name is required", id="no name"),
        pytest.param("vm", {"name": HOSTILE}, "name", "must be letters", id="a name that is none"),
        pytest.param("scale-set", {"count": "three"}, "count", "from 0 to 1000, not 'three'", id="no number"),
        pytest.param("scale-set", {"count": ""}, "count", "not empty", id="nothing for a number"),
        pytest.param("scale-set", {"count": "1001"}, "count", "from 0 to 1000", id="too many machines"),
        pytest.param("scale-set", {"count": "9" * 5000}, "count", "from 0 to 1000", id="far too many"),
        pytest.param("scale-set", {"count": "٣"}, "count", "from 0 to 1000", id="digits of another script"),
        pytest.param("scale-set", {"mode": "odd"}, "mode", "one of uniform, flexible", id="no such mode"),
        pytest.param("scale-set", {"zones": "1,1"}, "zones", "a zone is named twice", id="a zone twice"),
        pytest.param("scale-set", {"zones": "1,/"}, "zones", "letters and digits", id="no zone's name"),
        pytest.param("vm", {"tags": "role"}, "tags", "not of the form key=value", id="half a tag"),
        pytest.param("vm", {"tags": "a=1\na=2"}, "tags", "appears twice", id="a tag twice"),
        pytest.param("cloud-service", {"roles": ""}, "roles", "at least one role", id="no role"),
        pytest.param(
            "cloud-service", {"roles": "Web=x"}, "roles", "whole number", id="a role without number"
        ),
        pytest.param("cloud-service", {"roles": "W b=1"}, "roles", "must be letters", id="no role's name"),
        pytest.param("availability-set", {"fault_domains": "0"}, "fault_domains", "from 1", id="no domain"),
    ],
)
def test_a_mistake_is_told_at_its_field(choice: str, values: dict[str, str], field: str, words: str) -> None:
    found = errors(choice, **{"name": "web", **values})

    assert words in found[field]


@pytest.mark.rule("T-02")
@pytest.mark.parametrize("delay", ["4", "16", "0", "-5", "5.5", "", "ten", "1e1"])
def test_the_termination_delay_is_a_whole_number_from_5_to_15(delay: str) -> None:
    found = errors("scale-set", name="web", notification="on", delay=delay)

    assert list(found) == ["delay"]
    assert "must be a whole number from 5 to 15" in found["delay"]


@pytest.mark.rule("T-02")
@pytest.mark.parametrize("delay", ["5", "15"])
def test_the_termination_delay_may_be_at_either_end(delay: str) -> None:
    wanted = blueprint("scale-set", name="web", notification="on", delay=delay)

    assert wanted.terminate_notice == timedelta(minutes=int(delay))


@pytest.mark.rule("T-02")
def test_the_termination_delay_is_five_minutes_unless_said() -> None:
    wanted = blueprint("scale-set", name="web", notification="on")

    assert wanted.terminate_notice == timedelta(minutes=5)


@pytest.mark.rule("T-05")
def test_a_spot_set_cannot_have_the_notification() -> None:
    found = errors("scale-set", name="web", priority="spot", notification="on")

    assert found == {"notification": "terminate notification cannot be enabled for Spot machines"}


def test_all_mistakes_are_told_at_once_and_nothing_written_is_lost() -> None:
    values = {"name": HOSTILE, "count": "many", "notification": "on", "delay": "3", "tags": "x"}

    found = read_draft(CHOICES["scale-set"], written(**values), NOON)

    assert set(found.form.errors) == {"name", "count", "delay", "tags"}
    assert {field: found.form.values[field] for field in values} == values
    assert {problem.field for problem in found.form.problems} == set(found.form.errors)


def test_a_draft_names_the_machines_it_would_lead_to() -> None:
    found = read_draft(CHOICES["scale-set"], written(name="web", count="2"), NOON)

    assert [machine.name for machine in found.machines] == ["web_0", "web_1"]


@pytest.mark.parametrize("cause", MAINTENANCE)
def test_every_maintenance_of_the_form_can_be_rolled_out(cause: str) -> None:
    stage = FleetHarness(Blueprint(name="web", count=2))
    form = Form(written(scope="web", cause=cause, notice="1h30m"), ROLLOUT_DEFAULTS)

    rollout = read_rollout(form, stage.engine.scopes())

    assert form.errors == {}
    assert rollout.notice == span("1h30m")
    stage.do(StartRollout(id=stage.new_id(), scope=rollout.scope, cause=rollout.cause, notice=rollout.notice))


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        pytest.param({}, "scope", "choose a scope", id="no scope"),
        pytest.param({"scope": HOSTILE}, "scope", "no scope named", id="a scope that is none"),
        pytest.param({"cause": "restart"}, "cause", "must be one of", id="no maintenance"),
        pytest.param({"notice": "soon"}, "notice", "invalid duration 'soon'", id="no duration"),
        pytest.param({"notice": "9999d"}, "notice", "longer than", id="too long a notice"),
    ],
)
def test_a_rollout_form_shows_its_errors(values: dict[str, str], field: str, words: str) -> None:
    form = Form(written(**values), ROLLOUT_DEFAULTS)

    read_rollout(form, {ScopeId("web"): None})

    assert words in form.errors[field]
