"""The history: every change of a machine names its author, and notes about other actions are included."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, MachineChanged
from fairwarning.core.commands import (
    AddMachines,
    ChangeModel,
    Command,
    CreateSet,
    MoveMachine,
    Protect,
    SetPower,
    Upgrade,
)
from fairwarning.core.history import (
    ActionNote,
    CommandRefused,
    HistoryEntry,
    OperatorAction,
    to_history_entry,
)
from fairwarning.core.model import NO_SCOPE, EventId, HostId, MachineRef, PowerState, ScopeId, VmName
from tests.fleet_harness import NOON, FleetHarness

ID = ScopeId("web")
WEB_0 = MachineRef(ID, VmName("web_0"))


def askers(changes: tuple[Change, ...]) -> set[str]:
    """Return who changed machines."""
    return {one.by for one in changes if isinstance(one, MachineChanged)}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(CreateSet(seed="s", blueprint=Blueprint(name="db"), by="ann"), id="making a set"),
        pytest.param(AddMachines(seed="s", scope=ID, by="ann"), id="adding an instance"),
        pytest.param(SetPower(machine=WEB_0, power=PowerState.STOPPED, by="ann"), id="stopping a machine"),
        pytest.param(MoveMachine(machine=WEB_0, host=HostId("h7"), by="ann"), id="moving a machine"),
        pytest.param(Protect(machine=WEB_0, protected=True, by="ann"), id="protecting an instance"),
        pytest.param(Upgrade(machines=(WEB_0,), by="ann"), id="upgrading an instance"),
        pytest.param(
            ChangeModel(scopes=(ID,), terminate_notice=None, upgrades_itself=True, by="ann"),
            id="changing the model of a set that upgrades itself",
        ),
    ],
)
def test_the_journal_names_the_author_of_a_machines_change(command: Command) -> None:
    stage = FleetHarness(Blueprint(name="web"))
    stage.do(ChangeModel(scopes=(ID,), terminate_notice=None))

    changes = stage.do(command)

    assert askers(changes) == {"ann"}


@pytest.mark.parametrize(("cause", "set_"), [("redeploy", "web"), ("evict", "spot")])
def test_what_an_impact_makes_of_a_machine_is_the_drivers_doing(cause: str, set_: str) -> None:
    stage = FleetHarness(Blueprint(name="web"), Blueprint(name="spot", spot=True))
    before = len(stage.journal())
    stage.cause(cause, f"{set_}_0")

    stage.advance("1h")

    assert askers(
        tuple(e.change for e in stage.journal()[before:] if isinstance(e.change, MachineChanged))
    ) == {"driver"}


TOLD = [
    pytest.param(
        ActionNote(deed=OperatorAction.FAULT, detail="429 for 30s", by="ann", scope=ID, machines=(WEB_0,)),
        ("fault", "endpoint", ID, ("web_0",), "429 for 30s"),
        id="a fault",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.HEALED, detail="429", by="ann", scope=ID, machines=(WEB_0,)),
        ("healed", "endpoint", ID, ("web_0",), "429"),
        id="its end",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.ADVANCED, detail="by 5m", by="ann"),
        ("advanced", "clock", NO_SCOPE, (), "by 5m"),
        id="an advance",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.SPEED, detail="60 times as fast", by="ann"),
        ("speed", "clock", NO_SCOPE, (), "60 times as fast"),
        id="another speed",
    ),
    pytest.param(
        CommandRefused(scope=ID, asked="cancel", reason="it has started", by="ann", event=EventId("E1")),
        ("refused", "cancel", ID, (), "it has started"),
        id="a refusal",
    ),
]


@pytest.mark.parametrize(("note", "expected"), TOLD)
def test_a_note_is_in_the_history_with_its_author(
    note: ActionNote | CommandRefused, expected: tuple[str, str, str, tuple[str, ...], str]
) -> None:
    entry = to_history_entry(7, NOON, note)

    assert isinstance(entry, HistoryEntry)
    assert (entry.seq, entry.at, entry.by) == (7, NOON, "ann")
    assert (entry.kind, entry.type, entry.scope, entry.resources, entry.reason) == expected
