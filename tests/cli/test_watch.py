"""Lines of the history as sentences."""

import pytest

from fairwarning.cli.client import HistoryLine
from fairwarning.cli.watch import sentence
from fairwarning.core.changes import MachineChanged
from fairwarning.core.history import ActionNote, OperatorAction, to_history_entry
from fairwarning.core.model import HostId, Machine, MachineRef, ScopeId, VmName
from tests.fleet_harness import NOON

WEB = ScopeId("web")
WEB_0 = MachineRef(WEB, VmName("web_0"))

SENTENCES = [
    pytest.param(
        ActionNote(
            deed=OperatorAction.FAULT, detail="429 for 30s", by="operator", scope=WEB, machines=(WEB_0,)
        ),
        "the endpoint of web_0 is given a fault by operator: 429 for 30s",
        id="a fault",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.HEALED, detail="429", by="operator", scope=WEB, machines=(WEB_0,)),
        "the fault of the endpoint of web_0 is cleared by operator",
        id="its end",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.ADVANCED, detail="by 5m", by="operator"),
        "the clock is advanced by operator: by 5m",
        id="an advance",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.SPEED, detail="60 times as fast", by="operator"),
        "the speed of the clock is set by operator: 60 times as fast",
        id="another speed",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.RESTORED, detail="a backup taken at noon", by="operator"),
        "the database is restored by operator: a backup taken at noon",
        id="a restore",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.HELD, detail="host kvm-17 (DIMM 3)", by="operator"),
        "host kvm-17 (DIMM 3) is on hold, by operator",
        id="a hold",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.UNHELD, detail="the fleet", by="operator"),
        "the fleet is no longer on hold, by operator",
        id="the end of a hold",
    ),
    pytest.param(
        MachineChanged(
            scope=WEB,
            machine=Machine(scope=WEB, name=WEB_0.name, vm_id="1", host=HostId("kvm-20")),
            by="operator",
            moved_from=HostId("kvm-17"),
        ),
        "the host of web_0 changes from kvm-17 to kvm-20, as operator reports",
        id="a move",
    ),
]


@pytest.mark.parametrize(("note", "expected"), SENTENCES)
def test_an_action_of_an_operator_is_a_sentence(note: ActionNote | MachineChanged, expected: str) -> None:
    entry = to_history_entry(1, NOON, note)

    assert entry is not None
    received = HistoryLine(
        seq=entry.seq,
        at=entry.at,
        kind=entry.kind,
        scope=entry.scope,
        event=entry.event,
        type=entry.type,
        resources=entry.resources,
        by=entry.by,
        reason=entry.reason,
    )
    assert sentence(received) == expected


def test_every_operator_action_has_a_sentence() -> None:
    assert {case.values[0].deed for case in SENTENCES if isinstance(case.values[0], ActionNote)} == set(
        OperatorAction
    )
