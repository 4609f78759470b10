"""What the log says about the lines of the journal."""

import logging
import re
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, MachineRemoved, PollsRecorded, TextChanged
from fairwarning.core.commands import Protect, SetTagsOfSet
from fairwarning.core.history import ActionNote, CommandRefused, Note, OperatorAction
from fairwarning.core.model import ApprovalSettings, MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.stored.kinds import FIRST_READS
from fairwarning.drivers.simulated import Mishap
from fairwarning.engine.ports import Entry
from fairwarning.formats.hidden_characters import first_hidden
from fairwarning.logs.journal import KnownFleet, LogLine, lines_of
from tests.fleet_harness import NOON, FleetHarness

WEB = Blueprint(name="web", count=3)
SHOP = Blueprint(name="shop", count=4, zones=("1", "2"))
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
BATCH = Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True)

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))

Step = Callable[[FleetHarness], object]


def logged(fleet: FleetHarness, step: Step) -> list[LogLine]:
    """Return the log lines about what a step does."""
    known, begun = KnownFleet(fleet.engine.scopes()), len(fleet.journal())
    step(fleet)
    return list(lines_of(fleet.journal()[begun:], known))


def texts(lines: Iterable[LogLine]) -> list[str]:
    """Return the lines at the level info, without the ids of requests."""
    return [re.sub(r" request=\w+$", "", str(line.message)) for line in lines if line.level >= logging.INFO]


CHANGES = [
    pytest.param(
        lambda fleet: fleet.make(Blueprint(name="app", count=5), watched=False),
        ["set_created set=app kind=scale-set scope=app machines=5 by=operator"],
        id="a set is one line with the number of its machines",
    ),
    pytest.param(
        lambda fleet: fleet.make(Blueprint(name="mall", count=4, zones=("1", "2")), watched=False),
        ["set_created set=mall kind=scale-set scopes=2 machines=4 by=operator"],
        id="a set in two zones is one line",
    ),
    pytest.param(
        lambda fleet: fleet.grow("web", 2),
        ["machines_added scope=web machines=2 by=operator"],
        id="new machines are one line",
    ),
    pytest.param(
        lambda fleet: fleet.stop("db"),
        ["power_changed power=stopped scope=db machines=1 machine=db by=operator"],
        id="a single machine is named",
    ),
    pytest.param(
        lambda fleet: fleet.do(Protect(machine=fleet.ref("web_0"), protected=True)),
        ["protection_changed protected=true scope=web machines=1 machine=web_0 by=operator"],
        id="protection from scale-in",
    ),
    pytest.param(
        lambda fleet: fleet.change_notice("shop", "5m"),
        ["model_changed model=2 scopes=2 by=operator"],
        id="a model",
    ),
    pytest.param(
        lambda fleet: fleet.do(SetTagsOfSet(scopes=(ScopeId("web"),), tags=(("a", "b"),))),
        ["scope_changed scope=web by=operator"],
        id="the tags of a set, which are no new model",
    ),
    pytest.param(
        lambda fleet: (fleet.change_notice("web", "5m"), fleet.upgrade("web_0", "web_1")),
        [
            "model_changed model=2 scope=web by=operator",
            "machines_upgraded model=2 scope=web machines=2 by=operator",
        ],
        id="an upgrade",
    ),
    pytest.param(
        lambda fleet: fleet.set_approvals("web", ApprovalSettings(user_reboot=True)),
        ["approvals_changed scope=web by=operator"],
        id="approvals",
    ),
    pytest.param(
        lambda fleet: fleet.poll("batch"),
        ["events_enabled scope=batch by=batch"],
        id="the first poll of a scope",
    ),
    pytest.param(
        lambda fleet: (fleet.cause("delete", "batch"), fleet.advance("10s")),
        ["machines_deleted scope=batch machines=1 machine=batch", "scope_deleted scope=batch"],
        id="the end of a machine and its scope",
    ),
]


@pytest.mark.parametrize(("step", "expected"), CHANGES)
def test_a_change_is_one_line(step: Step, expected: list[str]) -> None:
    fleet = FleetHarness(WEB, SHOP, DB)
    fleet.make(BATCH, watched=False)

    lines = logged(fleet, step)

    assert [text for text in texts(lines) if not text.startswith("event_")] == expected


def test_each_step_of_an_event_is_one_line() -> None:
    fleet = FleetHarness(WEB)
    fleet.break_machine("web_0", Mishap.FAILS)

    def restart(fleet: FleetHarness) -> None:
        (event,) = fleet.cause("restart", "web_0")
        fleet.approve(event, by="web_1")
        fleet.advance("10m")

    lines = logged(fleet, restart)

    event = f"event_id={lines[0].message.fields['event_id']} type=Reboot scope=web machines=1"
    assert texts(lines) == [
        f"event_scheduled {event} cause=restart by=operator not_before=2026-11-16T12:15:00.000Z",
        f"event_approved {event} by=web_1",
        f"event_started {event} by=web_1",
        f'impact_failed {event} by=driver attempt=1 retry_at=2026-11-16T12:00:10.000Z reason="web_0: failed"',
        f"event_finished {event} by=platform",
    ]


def test_the_lines_of_a_request_have_its_id_and_those_of_another_do_not() -> None:
    fleet = FleetHarness(WEB)

    def restart(fleet: FleetHarness) -> None:
        (event,) = fleet.cause("restart", "web_0")
        fleet.approve(event)

    scheduled, approved, started = (
        line.message.fields["request"] for line in logged(fleet, restart) if line.level >= logging.INFO
    )

    assert approved == started != scheduled


def test_a_request_that_changes_nothing_but_documents_is_one_line() -> None:
    changes = [
        TextChanged(key="/subscriptions/s/resourcegroups/a", text='{"secret":1}'),
        TextChanged(key="operation:b", text=None),
    ]
    entries = [
        Entry(seq=seq, at=NOON, version=0, change=change, request="r1")
        for seq, change in enumerate(changes, 1)
    ]

    assert [str(line.message) for line in lines_of(entries, KnownFleet({}))] == [
        'documents_changed documents=2 kinds="operation, resource group" request=r1'
    ]


def test_polls_are_recorded_at_the_level_debug() -> None:
    polled = PollsRecorded(at=NOON, scopes=(ScopeId("app"), ScopeId("web")))

    (line,) = lines_of([Entry(seq=1, at=NOON, version=0, change=polled)], KnownFleet({}))

    assert (line.level, str(line.message)) == (logging.DEBUG, "polls_recorded scopes=2")


def test_first_reads_are_recorded_at_the_level_debug() -> None:
    changes = [TextChanged(key=FIRST_READS.key(name), text="{}") for name in "ab"]
    entries = [Entry(seq=seq, at=NOON, version=0, change=change) for seq, change in enumerate(changes, 1)]

    (line,) = lines_of(entries, KnownFleet({}))

    assert (line.level, str(line.message)) == (logging.DEBUG, "reads_recorded events=2")


def test_a_cancelled_event_is_one_line() -> None:
    fleet = FleetHarness(WEB)
    (event,) = fleet.cause("restart", "web_0")

    lines = logged(fleet, lambda fleet: fleet.cancel(event))

    assert texts(lines) == [f"event_cancelled event_id={event} type=Reboot scope=web machines=1 by=operator"]


def test_what_only_the_curious_want_to_see_is_logged_at_the_level_debug() -> None:
    fleet = FleetHarness(WEB, watched=False)

    def restart_unseen(fleet: FleetHarness) -> None:
        fleet.cause("host-update", "web_0")
        fleet.poll("web_0")

    lines = logged(fleet, restart_unseen)

    debug = [line.message.event for line in lines if line.level == logging.DEBUG]
    assert debug == ["event_shown"]


def test_a_rollout_is_logged_from_domain_to_domain() -> None:
    fleet = FleetHarness(Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2))

    def roll_out(fleet: FleetHarness) -> None:
        fleet.walk("app", notice="1m")
        fleet.advance("1h")

    lines = [text for text in texts(logged(fleet, roll_out)) if text.startswith("rollout_")]

    assert lines == [
        "rollout_started cause=host-update domains=2 scope=app by=operator",
        "rollout_advanced domain=0 scope=app by=operator",
        "rollout_advanced domain=1 scope=app by=operator",
        "rollout_ended scope=app by=operator",
    ]


def test_a_deletion_is_logged_when_it_starts_and_when_its_event_is_cancelled() -> None:
    fleet = FleetHarness(Blueprint(name="web", count=1, terminate_notice=timedelta(minutes=5)))

    def change_one_s_mind(fleet: FleetHarness) -> None:
        (event,) = fleet.remove("web")
        fleet.cancel(event)

    lines = [text for text in texts(logged(fleet, change_one_s_mind)) if text.startswith("deletion_")]

    assert lines == ["deletion_started scope=web by=operator", "deletion_stopped scope=web by=operator"]


def test_a_scope_that_nobody_polls_is_logged_as_disabled() -> None:
    fleet = FleetHarness(WEB)

    lines = logged(fleet, lambda fleet: fleet.advance("25h"))

    assert texts(lines) == ["events_disabled scope=web by=platform"]


def test_a_refusal_is_one_line_with_its_reason() -> None:
    reason = "web_0 is not a Spot machine"
    note = CommandRefused(
        scope=ScopeId("web"), asked="evict", reason=reason, by="operator", machines=(WEB_0,)
    )

    assert texts(lines_of([Entry(seq=1, at=NOON, version=0, change=note)], KnownFleet({}))) == [
        "refused asked=evict scope=web machines=1 machine=web_0 by=operator"
        ' reason="web_0 is not a Spot machine"'
    ]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (OperatorAction.FAULT, "fault_set detail=x scope=web machines=1 machine=web_0 by=ann"),
        (OperatorAction.HEALED, "fault_cleared detail=x scope=web machines=1 machine=web_0 by=ann"),
        (OperatorAction.ADVANCED, "clock_advanced detail=x scope=web machines=1 machine=web_0 by=ann"),
        (OperatorAction.SPEED, "speed_changed detail=x scope=web machines=1 machine=web_0 by=ann"),
        (OperatorAction.RESTORED, "database_restored detail=x scope=web machines=1 machine=web_0 by=ann"),
    ],
)
def test_an_action_that_changes_no_state_is_one_line(action: OperatorAction, expected: str) -> None:
    note = ActionNote(deed=action, detail="x", by="ann", scope=ScopeId("web"), machines=(WEB_0,))

    lines = lines_of([Entry(seq=1, at=NOON, version=0, change=note)], KnownFleet({}))

    assert texts(lines) == [expected]


HOSTILE = "x\n\x1b[2J\u202e" + "y" * 1_000_000


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            CommandRefused(scope=ScopeId(HOSTILE), asked=HOSTILE, reason=HOSTILE, by=HOSTILE),
            id="a refusal",
        ),
        pytest.param(
            ActionNote(deed=OperatorAction.FAULT, detail=HOSTILE, by=HOSTILE, scope=ScopeId(HOSTILE)),
            id="an action",
        ),
        pytest.param(
            MachineRemoved(scope=ScopeId(HOSTILE), name=VmName(HOSTILE)), id="a machine with such a name"
        ),
    ],
)
def test_a_hostile_text_gives_one_line_of_limited_length(change: Change | Note) -> None:
    (line,) = lines_of([Entry(seq=1, at=NOON, version=0, change=change)], KnownFleet({}))

    text = str(line.message)
    assert len(text) < 4000
    assert first_hidden(text) is None
