"""How a line of the history reads to whoever watches."""

import pytest

from fairwarning.cli.client import HistoryLine
from fairwarning.cli.watch import sentence
from fairwarning.core.history import ActionNote, OperatorAction, line
from fairwarning.core.model import MachineRef, ScopeId, VmName
from tests.fleet_harness import NOON

WEB = ScopeId("web")
WEB_0 = MachineRef(WEB, VmName("web_0"))

SENTENCES = [
    pytest.param(
        ActionNote(
            deed=OperatorAction.FAULT, detail="429 for 30s", by="operator", scope=WEB, machines=(WEB_0,)
        ),
        "the endpoint of web_0 is made to misbehave by operator: 429 for 30s",
        id="a fault",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.HEALED, detail="429", by="operator", scope=WEB, machines=(WEB_0,)),
        "the endpoint of web_0 is healed by operator",
        id="its end",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.ADVANCED, detail="by 5m", by="operator"),
        "the clock is moved on by operator: by 5m",
        id="a journey",
    ),
    pytest.param(
        ActionNote(deed=OperatorAction.SPEED, detail="60 times as fast", by="operator"),
        "the clock is set by operator: 60 times as fast",
        id="another speed",
    ),
]


@pytest.mark.parametrize(("remark", "expected"), SENTENCES)
def test_what_somebody_did_to_an_endpoint_or_the_clock_is_a_sentence(
    remark: ActionNote, expected: str
) -> None:
    told = line(1, NOON, remark)

    assert told is not None
    seen = HistoryLine(
        seq=told.seq,
        at=told.at,
        kind=told.kind,
        scope=told.scope,
        event=told.event,
        type=told.type,
        resources=told.resources,
        by=told.by,
        reason=told.reason,
    )
    assert sentence(seen) == expected


def test_every_deed_has_its_sentence() -> None:
    assert {case.values[0].deed for case in SENTENCES if isinstance(case.values[0], ActionNote)} == set(
        OperatorAction
    )
