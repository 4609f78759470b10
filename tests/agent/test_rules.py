"""Which rule applies to an event."""

import pytest

from fairwarning.agent.rules import SHORT_FREEZE, WATCH, Rule, choose
from fairwarning.core.document.parse import ObservedEvent
from tests.agent.events import seen

REBOOTS = Rule(name="reboots", types=frozenset({"reboot", "redeploy"}))
FREEZES = Rule(name="freezes", types=frozenset({"freeze"}))
LONG = Rule(name="long", min_duration=60)
BRIEF = Rule(name="brief", max_duration=60)
USERS = Rule(name="users", sources=frozenset({"user"}))
WEB = Rule(name="web", resources=("web_*",))
ALL = Rule(name="all")
NAMED = Rule(name="named", types=frozenset({"relocate"}))


@pytest.mark.rule("C-06", "C-12")
@pytest.mark.parametrize(
    ("event", "rules", "expected"),
    [
        pytest.param(seen(), (REBOOTS, ALL), REBOOTS, id="the first rule that matches wins"),
        pytest.param(seen(), (ALL, REBOOTS), ALL, id="the order is the file's"),
        pytest.param(
            seen(kind="REBOOT"), (REBOOTS,), REBOOTS, id="types are compared without regard to case"
        ),
        pytest.param(seen(kind="Preempt"), (REBOOTS,), WATCH, id="what no rule covers is watched"),
        pytest.param(seen(source="User"), (USERS,), USERS, id="a rule may ask for a source"),
        pytest.param(seen(), (USERS,), WATCH, id="another source does not match"),
        pytest.param(seen(duration=60), (LONG,), LONG, id="long enough"),
        pytest.param(seen(duration=59), (LONG,), WATCH, id="too short"),
        pytest.param(seen(duration=60), (BRIEF,), BRIEF, id="short enough"),
        pytest.param(seen(duration=61), (BRIEF,), WATCH, id="too long"),
        pytest.param(seen(duration=-1), (BRIEF, LONG), LONG, id="an unknown duration may be long"),
        pytest.param(seen(duration=None), (BRIEF, LONG), LONG, id="no duration may be long"),
        pytest.param(
            seen("E", "Reboot", "db", "WEB_1"), (WEB,), WEB, id="one resource that matches is enough"
        ),
        pytest.param(
            seen("E", "Reboot", "_web_1"), (WEB,), WEB, id="the oldest version's underscore is left out"
        ),
        pytest.param(seen("E", "Reboot", "db"), (WEB,), WATCH, id="other resources do not match"),
        pytest.param(seen(kind="Freeze", duration=8), (ALL,), SHORT_FREEZE, id="a short Freeze is let pass"),
        pytest.param(seen(kind="Freeze", duration=0), (ALL,), SHORT_FREEZE, id="a Freeze of no time too"),
        pytest.param(seen(kind="Freeze", duration=8), (FREEZES,), FREEZES, id="unless a rule names Freeze"),
        pytest.param(seen(kind="Freeze", duration=9), (ALL,), ALL, id="nine seconds are not short"),
        pytest.param(seen(kind="Freeze", duration=-1), (ALL,), ALL, id="an unknown Freeze is not short"),
        pytest.param(seen(kind="Relocate"), (ALL,), WATCH, id="an unknown type takes a rule that names it"),
        pytest.param(seen(kind="Relocate"), (NAMED,), NAMED, id="and is obeyed if one does"),
    ],
)
def test_an_event_falls_under(event: ObservedEvent, rules: tuple[Rule, ...], expected: Rule) -> None:
    assert choose(event, rules, freeze_threshold=9) is expected
