"""Why the agent waits: for peers, for a check, for information; and the reason it gives."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.agent.coordination import CoordinationMode, Peers
from fairwarning.agent.plan import ApproveAction, Memory, WaitAction, plan
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from tests.agent.events import ME, NOON, document, seen
from tests.agent.memories import E1, E2, FAILED, K1, POLICY, ready

PAIR = seen("E1", "Reboot", "web_0", "web_1")
SECOND = seen("E1", "Reboot", "web_1", "web_0")


@pytest.mark.rule("C-02", "C-03")
@pytest.mark.parametrize(
    ("shown", "me"),
    [
        pytest.param(None, ME, id="no document yet says nothing about events"),
        pytest.param(document(E2), None, id="a machine that does not know its name leaves everything alone"),
    ],
)
def test_without_information_nothing_is_done(shown: ObservedDocument | None, me: str | None) -> None:
    actions = plan(shown, ready(E1), me, POLICY, NOON)

    assert actions == (WaitAction(E1),)


@pytest.mark.rule("C-07", "T-15")
@pytest.mark.parametrize(
    ("event", "mode", "others_ready", "known", "elapsed", "approved"),
    [
        pytest.param(
            E1,
            CoordinationMode.OWN_ONLY,
            False,
            False,
            0,
            True,
            id="an event of this machine alone needs no peer",
        ),
        pytest.param(
            PAIR, CoordinationMode.OWN_ONLY, True, True, 0, False, id="own-only: an event with others waits"
        ),
        pytest.param(
            PAIR, CoordinationMode.LEADER, False, False, 0, True, id="leader: the first name answers for all"
        ),
        pytest.param(
            PAIR,
            CoordinationMode.LEADER,
            False,
            True,
            0,
            False,
            id="leader: neighbours who can be asked must be ready",
        ),
        pytest.param(
            PAIR, CoordinationMode.LEADER, True, True, 0, True, id="leader: all are ready, the first approves"
        ),
        pytest.param(
            SECOND, CoordinationMode.LEADER, True, True, 999, False, id="leader: only the first name approves"
        ),
        pytest.param(
            PAIR, CoordinationMode.PEERS, False, True, 0, False, id="peers: not before all are ready"
        ),
        pytest.param(
            PAIR, CoordinationMode.PEERS, False, False, 0, False, id="peers: a silent neighbour is not ready"
        ),
        pytest.param(
            PAIR, CoordinationMode.PEERS, True, True, 0, True, id="peers: all are ready, the first approves"
        ),
        pytest.param(
            SECOND,
            CoordinationMode.PEERS,
            True,
            True,
            0,
            False,
            id="peers: the second leaves it to the first",
        ),
        pytest.param(
            SECOND,
            CoordinationMode.PEERS,
            True,
            True,
            30,
            True,
            id="peers: the second takes over from a silent first",
        ),
        pytest.param(
            SECOND,
            CoordinationMode.PEERS,
            False,
            True,
            999,
            False,
            id="peers: no machine takes over before all are ready",
        ),
        pytest.param(
            seen("E1", "Terminate", "web_0", "web_1"),
            CoordinationMode.PEERS,
            True,
            True,
            0,
            False,
            id="a Terminate is approved only by its own machine",
        ),
    ],
)
def test_an_event_of_several_machines(
    event: ObservedEvent,
    mode: CoordinationMode,
    others_ready: bool,
    known: bool,
    elapsed: int,
    approved: bool,
) -> None:
    since = NOON - timedelta(seconds=elapsed)
    peers = Peers(
        ready={(K1, "web_1"): since} if others_ready else {},
        known=frozenset({"web_1"} if known else ()),
    )
    memory = ready(event, at=since)

    actions = plan(document(event), memory, ME, replace(POLICY, mode=mode), NOON, peers)

    assert actions == ((ApproveAction(event),) if approved else (WaitAction(event),))


def test_the_last_healthy_machine_holds() -> None:
    peers = Peers(hold="the check says hold: web_1 is down")

    actions = plan(document(E1), ready(E1), ME, POLICY, NOON, peers)

    assert actions == (WaitAction(E1),)
    assert actions[0].why == "the check says hold: web_1 is down"


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        pytest.param(FAILED, "preparing failed, so it is not approved: the drain exits 1", id="failed"),
        pytest.param(ready(E1, approved=True), "approved; it has not started yet", id="approved"),
        pytest.param(ready(E1, refused="400"), "the server refused the approval: 400", id="refused"),
    ],
)
def test_a_wait_says_why(memory: Memory, why: str) -> None:
    (action,) = plan(document(E1), memory, ME, POLICY, NOON)

    assert action.why == why
