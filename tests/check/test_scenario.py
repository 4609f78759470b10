"""Scenarios are data: how they are read, and the errors of invalid ones."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from fairwarning.check.judge import ASKS_RULE
from fairwarning.check.scenario import Timing, UnplayableError, load, parse_scenario, schema, standard, text
from fairwarning.core.document.render import Json
from tests.check.observations import after, content

ROOT = Path(__file__).parents[2]
RULES = set(re.findall(r"^\| ([A-Z]-\d+a?) \|", (ROOT / "docs/rules.md").read_text(), re.MULTILINE))

STEP: dict[str, Json] = {"do": "cause", "cause": "restart", "machines": ["web_0"]}


@pytest.mark.parametrize("name", standard())
def test_a_standard_scenario_makes_sense(name: str) -> None:
    scenario = load(name)

    assert scenario.name == name
    assert {ASKS_RULE, *(expectation.rule for expectation in scenario.expect)} <= RULES


def test_the_standard_suite_is_of_some_size() -> None:
    summaries = {load(name).summary for name in standard()}

    assert len(summaries) == len(standard()) >= 19


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param(
            {"speeed": 3}, "made.toml: Object contains unknown field `speeed`", id="an unknown member"
        ),
        pytest.param(
            {"speed": "fast"}, "made.toml: speed: Expected `float | object`, got `str`", id="a type"
        ),
        pytest.param(
            {"limit": "soon"}, "made.toml: limit: Expected `str` matching regex", id="a length that is none"
        ),
        pytest.param(
            {"steps": [STEP, {"do": "dance"}]},
            "made.toml: steps[1].do: Invalid value 'dance'",
            id="an unknown step",
        ),
        pytest.param(
            {"steps": [{**STEP, "cause": "rain"}]},
            "made.toml: steps[0].cause: 'rain' is not one of restart, ",
            id="a cause of nothing",
        ),
        pytest.param(
            {"steps": [STEP, {"do": "cancel", "event": "rain"}]},
            "made.toml: steps[1].event: 'rain' is not one of restart",
            id="an event that nothing causes",
        ),
        pytest.param(
            {"steps": [{"do": "kill", "machines": ["db"]}]},
            "made.toml: steps[0].machines: 'db' is not one of web_0",
            id="a machine without a handler",
        ),
        pytest.param(
            {"handlers": ["nobody"]},
            "made.toml: handlers: 'nobody' is not one of web_0, web_1",
            id="a handler on a machine that is not in the fleet",
        ),
        pytest.param(
            {"handlers": ["web_0", "web_1", "web_0"]},
            "made.toml: handlers: 'web_0' is listed 2 times",
            id="two handlers on a machine",
        ),
        pytest.param(
            {"drain": {"takes_on": {"web_1": "3s"}}},
            "made.toml: drain.takes_on: 'web_1' is not one of web_0",
            id="a drain where no handler is",
        ),
        pytest.param(
            {"steps": [{**STEP, "machines": ["web_0", "web_2"]}]},
            "made.toml: steps[0].machines: 'web_2' is not one of web_0, web_1",
            id="a cause for a machine that is not in the fleet",
        ),
        pytest.param(
            {"steps": [{"do": "fault", "fault": "429", "lasts": "3s", "machines": ["db"]}]},
            "made.toml: steps[0].machines: 'db' is not one of web_0, web_1",
            id="a fault of a machine that is not in the fleet",
        ),
        pytest.param(
            {"steps": [STEP, {"do": "approve", "event": "restart", "by": "db"}]},
            "made.toml: steps[1].by: 'db' is not one of web_0, web_1",
            id="an approval by a machine that is not in the fleet",
        ),
        pytest.param(
            {"steps": [{**STEP, "after": "gone", "of": "restart"}]},
            "made.toml: steps[0].of: 'restart' is not one of none",
            id="a step that waits for itself",
        ),
        pytest.param(
            {"ends": {"of": "rain"}},
            "made.toml: ends.of: 'rain' is not one of restart",
            id="an end of nothing",
        ),
        pytest.param(
            {"expect": [{"expect": "approves"}]},
            "made.toml: expect[0]: Object missing required field `rule`",
            id="an expectation that no rule backs",
        ),
        pytest.param(
            {"expect": [{"expect": "approves", "rule": "C-06", "event": "rain"}]},
            "made.toml: expect[0].event: 'rain' is not one of restart",
            id="an expectation about nothing",
        ),
        pytest.param(
            {"expect": [{"expect": "approves", "rule": "C-06", "machine": "db"}]},
            "made.toml: expect[0].machine: 'db' is not one of web_0",
            id="an expectation of a machine without a handler",
        ),
    ],
)
def test_an_invalid_scenario_is_refused_by_name(members: dict[str, Json], message: str) -> None:
    with pytest.raises(UnplayableError) as refusal:
        parse_scenario("made.toml", content(**members))

    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("rain", "rain: is neither a standard scenario nor a .toml file", id="a name"),
        pytest.param("rain.toml", "rain.toml: cannot be read: ", id="a file that is not there"),
    ],
)
def test_a_scenario_that_is_not_there_is_refused(name: str, message: str) -> None:
    with pytest.raises(UnplayableError) as refusal:
        text(name)

    assert str(refusal.value).startswith(message)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "made.toml"
    path.write_text("name =")

    with pytest.raises(UnplayableError, match=r"made\.toml: is not valid TOML: "):
        load(str(path))


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text("plain-reboot"))

    assert load(str(path)) == load("plain-reboot")


def test_a_fleet_knows_its_machines_as_guests_do() -> None:
    fleet: dict[str, Json] = {
        "scale_sets": {"web": 2},
        "availability_sets": {"app": 2},
        "vms": ["db"],
        "spot_vms": ["batch"],
    }

    scenario = parse_scenario("made.toml", content(fleet=fleet))

    assert scenario.fleet.machines == ("web_0", "web_1", "app-0", "app-1", "db", "batch")


def test_the_schema_is_kept_beside_the_documentation() -> None:
    kept = (ROOT / "docs/scenario.schema.json").read_text()

    assert kept == json.dumps(schema(), indent=2) + "\n"


@pytest.mark.parametrize("name", standard())
def test_the_schema_lets_a_standard_scenario_pass(name: str) -> None:
    jsonschema_rs.validate(schema(), tomllib.loads(text(name)))


def test_the_schema_refuses_an_unknown_step() -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema(), content(steps=[{"do": "dance"}]))


def test_quick_shortens_what_says_so() -> None:
    scenario = parse_scenario(
        "made.toml",
        content(speed={"full": 10, "quick": 60}, limit={"full": "5m", "quick": "30s"}),
    )

    full, quick = Timing(), Timing(quick=True)

    assert (full.limit(scenario), full.speed_of(scenario)) == (after(300), 10)
    assert (quick.limit(scenario), quick.speed_of(scenario)) == (after(30), 60)


def test_a_slower_scenario_may_take_longer() -> None:
    scenario = parse_scenario("made.toml", content(speed=60, limit="30s"))

    slow, fast = Timing(speed=20), Timing(speed=120)

    assert (slow.limit(scenario), fast.limit(scenario)) == (after(90), after(30))
