"""Refused requests: one line of the journal each, with the caller, what was asked, and why."""

from collections.abc import Coroutine, Sequence
from datetime import timedelta

import pytest

from fairwarning.control.control import Control
from fairwarning.control.refusals import (
    LONGEST_NAME,
    LONGEST_REASON,
    MOST_GUESTS,
    MOST_MACHINES,
    Refusals,
    Subject,
    refusal_note,
)
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import ContendedError, FairWarningError, InvalidError
from fairwarning.core.history import CommandRefused, HistoryEntry
from fairwarning.core.model import (
    OPERATOR,
    EventId,
    MachineRef,
    PowerState,
    Principal,
    PrincipalKind,
    ScopeId,
    VmName,
    guest,
)
from fairwarning.engine.ports import Batch, Entry
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import NOON, FleetHarness, run

WEB = Blueprint(name="web", count=3)
WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
CONSOLE = Principal(PrincipalKind.OPERATOR, "console")


def refused(stage: FleetHarness, request: Coroutine[object, object, object]) -> HistoryEntry:
    """Make a request that is refused, and return the last line of the history."""
    with pytest.raises(FairWarningError):
        run(request)
    return stage.history()[-1]


def shown(line: HistoryEntry) -> tuple[str, str, str, str | None, Sequence[str]]:
    return line.kind, line.type, line.by, line.event, line.resources


def test_a_refused_approval_of_a_guest_is_part_of_the_history() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")

    line = refused(stage, Control(stage.engine).approve(guest(stage.ref("web_2")), "NOBODY"))

    assert shown(line) == ("refused", "approve", "web_2", "NOBODY", ("web_2",))
    assert line.reason == "no scheduled event has the id NOBODY"


def test_every_kind_of_request_has_its_own_line() -> None:
    stage = FleetHarness(WEB)
    control = Control(stage.engine)
    requests = {
        "evict": control.cause(CONSOLE, "evict", ["web_0"]),
        "restart": control.cause(CONSOLE, "restart", ["ghost"]),
        "freeze": control.cause(CONSOLE, "freeze", host="nowhere"),
        "approve": control.approve(CONSOLE, "E1"),
        "cancel": control.cancel(CONSOLE, "E1"),
        "rollout nap": control.start_rollout(CONSOLE, "web", "nap"),
        "stop rollout": control.stop_rollout(CONSOLE, "web"),
        "create": control.create_set(CONSOLE, WEB),
        "add machines": control.add_machines(CONSOLE, "web", 0),
        "delete": control.delete_machine(CONSOLE, "ghost"),
        "set power": control.set_power(CONSOLE, "ghost", PowerState.STOPPED),
        "change": control.change_set(CONSOLE, "web", terminate_notice=timedelta(1)),
        "upgrade": control.upgrade(CONSOLE, "web", ["ghost"]),
        "set fault": control.set_fault(CONSOLE, "ghost", "429"),
        "clear fault": control.clear_fault(CONSOLE, "ghost"),
        "move clock": control.advance(CONSOLE, timedelta(days=400)),
        "set speed": control.set_speed(CONSOLE, 60),
    }

    lines = {asked: refused(stage, request) for asked, request in requests.items()}

    assert {asked: (line.kind, line.type, line.by) for asked, line in lines.items()} == {
        asked: ("refused", asked, "operator:console") for asked in requests
    }
    assert [line.scope for line in lines.values() if line.scope] == ["web"] * 6
    assert len(stage.history()) == len(requests)


def test_a_refused_fault_names_the_machine() -> None:
    stage = FleetHarness(WEB)

    line = refused(stage, Control(stage.engine).set_fault(OPERATOR, "web_1", "flu"))

    assert shown(line) == ("refused", "set fault", "operator", None, ("web_1",))


def test_a_request_that_is_refused_by_its_first_command_changes_nothing() -> None:
    stage = FleetHarness(WEB)
    before = stage.scope("web")

    refused(
        stage,
        Control(stage.engine).change_set(
            OPERATOR, "web", terminate_notice=timedelta(1), approvals=lambda approvals: approvals
        ),
    )

    assert stage.scope("web") is before


def test_a_guest_gets_one_line_a_minute_that_counts_the_refusals_between() -> None:
    stage = FleetHarness(WEB)
    control, web_0 = Control(stage.engine), guest(WEB_0)

    for _ in range(13):
        refused(stage, control.approve(web_0, "E1"))
    stage.advance("59s")
    refused(stage, control.approve(web_0, "E1"))
    refused(stage, control.approve(guest(stage.ref("web_1")), "E2"))
    stage.advance("1s")
    refused(stage, control.approve(web_0, "E3"))
    stage.advance("1m")
    refused(stage, control.approve(web_0, "E4"))

    assert [(line.by, line.reason) for line in stage.history()] == [
        ("web_0", "no scheduled event has the id E1"),
        ("web_1", "no scheduled event has the id E2"),
        ("web_0", "no scheduled event has the id E3; 13 more refusals since the last line"),
        ("web_0", "no scheduled event has the id E4"),
    ]


def test_an_operator_gets_a_line_for_every_refusal() -> None:
    stage = FleetHarness(WEB)

    for _ in range(3):
        refused(stage, Control(stage.engine).approve(OPERATOR, "E1"))

    assert len(stage.history()) == 3


def test_a_request_that_others_kept_from_being_carried_out_was_not_refused() -> None:
    class BusyStore(MemoryStore):
        busy = False

        async def commit(self, batch: Batch) -> Sequence[Entry]:
            if self.busy:
                self.busy = False
                raise ContendedError
            return await super().commit(batch)

    store = BusyStore()
    stage = FleetHarness(WEB, store=store)
    store.busy = True

    with pytest.raises(ContendedError):
        run(Control(stage.engine).advance(OPERATOR, timedelta(minutes=1)))

    assert "refused" not in [line.kind for line in stage.history()]


def test_the_guests_that_are_remembered_are_limited() -> None:
    refusals = Refusals(lambda: NOON)

    def noted(number: int) -> bool:
        machine = MachineRef(ScopeId("web"), VmName(f"web_{number}"))
        return refusals.left_out(guest(machine)) is not None

    assert all(noted(number) for number in range(MOST_GUESTS + 1))
    assert noted(0)
    assert not noted(MOST_GUESTS)


def test_what_a_caller_can_put_into_a_line_is_limited() -> None:
    long = "\x1b[2J" + "x" * 10_000
    machines = tuple(MachineRef(ScopeId(long), VmName(f"{number}{long}")) for number in range(1000))
    subject = Subject(asked=long, scope=ScopeId(long), event=EventId(long), machines=machines)

    note = refusal_note(OPERATOR, subject, InvalidError("name", long), 0)

    assert isinstance(note, CommandRefused)
    assert len(note.reason) == LONGEST_REASON
    assert {len(note.asked), len(note.scope), len(note.event or "")} == {LONGEST_NAME}
    assert len(note.machines) == MOST_MACHINES
    assert all(len(part) == LONGEST_NAME for machine in note.machines for part in machine)
    assert "\x1b" not in f"{note}"
