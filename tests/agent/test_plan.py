"""The plan, case by case: the known mistakes of handlers, and every rule of section C."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.agent.plan import (
    Action,
    AgentPolicy,
    ApproveAction,
    EventStep,
    Memory,
    PrepareAction,
    RecoverAction,
    WaitAction,
    Work,
    deadline,
    plan,
)
from fairwarning.agent.rules import SHORT_FREEZE, WATCH, Consent, Rule
from fairwarning.core.document.parse import ObservedEvent
from tests.agent.events import DRAIN, ME, NOON, document, record, seen, started
from tests.agent.memories import E1, E2, FAILED, K1, POLICY, READY_1, ready, remembering


def approving(how: Consent) -> AgentPolicy:
    return replace(POLICY, rules=(replace(DRAIN, approve=how),))


NEW = Memory()
SHORT = seen("E1", "Freeze", duration=5)
REBALANCE = seen("E1", "SpotRebalanceRecommendation", notice=None)
STRANGE = seen("E1", "Relocate")


@pytest.mark.rule("C-04", "C-05", "C-06", "C-08", "C-09", "C-10", "C-11", "C-12", "C-13")
@pytest.mark.parametrize(
    ("shown", "memory", "policy", "expected"),
    [
        # -- what is new is prepared for
        pytest.param([E1], NEW, POLICY, [PrepareAction(E1, DRAIN)], id="a new event is prepared for"),
        pytest.param(
            [E1, E2],
            NEW,
            POLICY,
            [PrepareAction(E1, DRAIN), PrepareAction(E2, DRAIN)],
            id="all events of a document are handled, not only the last",
        ),
        pytest.param(
            [started(E1)],
            NEW,
            POLICY,
            [PrepareAction(started(E1), DRAIN)],
            id="an event without a Scheduled phase is prepared for, and not approved",
        ),
        pytest.param(
            [seen(notice=None)],
            NEW,
            POLICY,
            [PrepareAction(seen(notice=None), DRAIN)],
            id="an empty NotBefore is no reason to stop",
        ),
        pytest.param(
            [seen("E1", "Reboot", "WEB_0")],
            NEW,
            POLICY,
            [PrepareAction(seen("E1", "Reboot", "WEB_0"), DRAIN)],
            id="names are compared without regard to case",
        ),
        pytest.param(
            [seen("E1", "Reboot", "_web_0")],
            NEW,
            POLICY,
            [PrepareAction(seen("E1", "Reboot", "_web_0"), DRAIN)],
            id="the underscore of the oldest version is taken off",
        ),
        pytest.param(
            [seen("E1", "Reboot", "web_1")],
            NEW,
            POLICY,
            [WaitAction(seen("E1", "Reboot", "web_1"))],
            id="an event that does not name this machine is neither prepared for nor approved",
        ),
        pytest.param(
            [E1],
            remembering(busy=frozenset({(K1, Work.PREPARE)})),
            POLICY,
            [WaitAction(E1)],
            id="hooks that run are not begun again",
        ),
        pytest.param(
            [E1],
            remembering(record(E1, EventStep.PREPARING)),
            POLICY,
            [PrepareAction(E1, DRAIN)],
            id="preparing that a crash interrupted is begun again",
        ),
        pytest.param(
            [seen("e1")],
            ready(E1),
            POLICY,
            [ApproveAction(seen("e1"))],
            id="an id in lower case is the same event",
        ),
        # -- approving
        pytest.param([E1], ready(E1), POLICY, [ApproveAction(E1)], id="a machine that is ready approves"),
        pytest.param(
            [E1], FAILED, POLICY, [WaitAction(E1)], id="a machine whose drain failed does not approve"
        ),
        pytest.param(
            [E1],
            ready(E1, approved=True),
            POLICY,
            [WaitAction(E1)],
            id="an approval is not sent again on the next poll",
        ),
        pytest.param(
            [E1],
            remembering(READY_1, busy=frozenset({(K1, Work.APPROVE)})),
            POLICY,
            [WaitAction(E1)],
            id="an approval that is on its way is not sent twice",
        ),
        pytest.param(
            [E1],
            ready(E1, refused="no event has this id"),
            POLICY,
            [WaitAction(E1)],
            id="an approval that was refused is not repeated",
        ),
        pytest.param(
            [started(E1)],
            ready(E1),
            POLICY,
            [WaitAction(started(E1))],
            id="what has started needs no approval",
        ),
        pytest.param(
            [E1, E2],
            remembering(READY_1, record(E2, EventStep.FAILED, attempts=1)),
            POLICY,
            [ApproveAction(E1), WaitAction(E2)],
            id="one event's failure does not hold up another",
        ),
        pytest.param(
            [seen(source="User")],
            ready(E1),
            POLICY,
            [ApproveAction(seen(source="User"))],
            id="a user's event is approved as soon as the machine is ready: a user waits",
        ),
        pytest.param(
            [seen("E1", "Reboot", "web_1")],
            ready(E1),
            POLICY,
            [WaitAction(seen("E1", "Reboot", "web_1"))],
            id="an event that names this machine no more is not approved",
        ),
        # -- policies
        pytest.param(
            [E1],
            ready(E1),
            approving(Consent.NEVER),
            [WaitAction(E1)],
            id="a rule may leave events to their time",
        ),
        pytest.param(
            [E1],
            FAILED,
            approving(Consent.ALWAYS),
            [ApproveAction(E1)],
            id="a rule may approve after a failure",
        ),
        pytest.param(
            [E1],
            NEW,
            approving(Consent.IMMEDIATELY),
            [PrepareAction(E1, replace(DRAIN, approve=Consent.IMMEDIATELY)), ApproveAction(E1)],
            id="a rule may approve immediately",
        ),
        pytest.param(
            [SHORT],
            NEW,
            POLICY,
            [PrepareAction(SHORT, SHORT_FREEZE), ApproveAction(SHORT)],
            id="a short Freeze is approved at once, and nothing is drained",
        ),
        pytest.param(
            [seen("E1", "Freeze", duration=30)],
            NEW,
            POLICY,
            [PrepareAction(seen("E1", "Freeze", duration=30), DRAIN)],
            id="a longer Freeze is prepared for like everything else",
        ),
        pytest.param(
            [seen("E1", "Freeze", duration=30)],
            ready(seen("E1", "Freeze", duration=30)),
            POLICY,
            [ApproveAction(seen("E1", "Freeze", duration=30))],
            id="a Freeze is approved too",
        ),
        pytest.param(
            [E1],
            NEW,
            AgentPolicy(),
            [PrepareAction(E1, WATCH)],
            id="what no rule covers is watched, nothing is run",
        ),
        pytest.param(
            [E1],
            ready(E1, rule="watch", drains=False),
            AgentPolicy(),
            [WaitAction(E1)],
            id="what no rule covers is not approved",
        ),
        pytest.param(
            [E1],
            ready(E1, rule="watch", drains=False),
            POLICY,
            [PrepareAction(E1, DRAIN)],
            id="a rule that was added later is obeyed before anything is approved",
        ),
        pytest.param(
            [E1],
            FAILED,
            replace(POLICY, rules=(replace(DRAIN, tries=3),)),
            [PrepareAction(E1, replace(DRAIN, tries=3))],
            id="a rule may try again",
        ),
        pytest.param(
            [E1],
            remembering(record(E1, EventStep.FAILED, attempts=1, at=NOON)),
            replace(POLICY, rules=(replace(DRAIN, tries=3),)),
            [WaitAction(E1)],
            id="another try waits for a while",
        ),
        # -- what is not known
        pytest.param(
            [STRANGE],
            NEW,
            POLICY,
            [PrepareAction(STRANGE, WATCH)],
            id="an unknown type is watched, nothing is run",
        ),
        pytest.param(
            [STRANGE],
            ready(STRANGE, drains=False),
            POLICY,
            [WaitAction(STRANGE)],
            id="an unknown type is not approved",
        ),
        pytest.param(
            [seen(status="Postponed")],
            NEW,
            POLICY,
            [WaitAction(seen(status="Postponed"))],
            id="an unknown status starts nothing",
        ),
        pytest.param(
            [seen(status="Postponed")],
            ready(E1),
            POLICY,
            [WaitAction(seen(status="Postponed"))],
            id="an unknown status is not approved, and not taken for gone",
        ),
        pytest.param(
            [REBALANCE],
            NEW,
            POLICY,
            [PrepareAction(REBALANCE, DRAIN)],
            id="a recommendation to rebalance is advice to drain",
        ),
        pytest.param(
            [REBALANCE],
            ready(REBALANCE),
            POLICY,
            [WaitAction(REBALANCE)],
            id="a recommendation is not approved",
        ),
        # -- after it
        pytest.param(
            [],
            ready(started(E1)),
            POLICY,
            [RecoverAction(record(started(E1), EventStep.READY))],
            id="what has gone is over",
        ),
        pytest.param(
            [], ready(E1), POLICY, [RecoverAction(READY_1)], id="a cancelled event is recovered from too"
        ),
        pytest.param(
            [],
            FAILED,
            POLICY,
            [RecoverAction(record(E1, EventStep.FAILED, attempts=1, problem="the drain exits 1"))],
            id="a drain that failed half way is undone too",
        ),
        pytest.param(
            [],
            remembering(record(E1, EventStep.PREPARING)),
            POLICY,
            [RecoverAction(record(E1, EventStep.PREPARING))],
            id="a drain that a crash interrupted is undone if its event has gone",
        ),
        pytest.param(
            [],
            remembering(READY_1, busy=frozenset({(K1, Work.RECOVER)})),
            POLICY,
            [WaitAction(E1)],
            id="recovering that runs is not begun again",
        ),
        pytest.param(
            [started(E1)],
            ready(E1, approved=True),
            POLICY,
            [WaitAction(started(E1))],
            id="after the reboot, an event still listed is not prepared for again",
        ),
        pytest.param(
            [seen("E1", "Freeze", status="Started", duration=5)],
            ready(E1),
            POLICY,
            [WaitAction(seen("E1", "Freeze", status="Started", duration=5))],
            id="the duration is no timer: drained until the event has gone",
        ),
        pytest.param(
            [E2],
            remembering(READY_1, record(E2, EventStep.READY, approved=True)),
            POLICY,
            [WaitAction(E2), WaitAction(E1)],
            id="a machine that another event still needs drained is not put back to work",
        ),
        pytest.param(
            [E2],
            remembering(READY_1, record(E2, EventStep.READY, approved=True, drains=False)),
            POLICY,
            [PrepareAction(E2, DRAIN), RecoverAction(READY_1)],
            id="an event that drained nothing holds up no recovery",
        ),
        pytest.param(
            [],
            remembering(record(E1, EventStep.RECOVERING, attempts=1, at=NOON)),
            POLICY,
            [WaitAction(E1)],
            id="recovering that failed waits for a while",
        ),
        pytest.param(
            [],
            remembering(record(E1, EventStep.RECOVERING, attempts=1)),
            POLICY,
            [RecoverAction(record(E1, EventStep.RECOVERING, attempts=1))],
            id="recovering that failed is tried again",
        ),
        pytest.param(
            [E1],
            remembering(record(E1, EventStep.RECOVERING)),
            POLICY,
            [RecoverAction(record(E1, EventStep.RECOVERING))],
            id="an event that comes back is recovered from before it is prepared for",
        ),
    ],
)
def test_a_guest_does(
    shown: list[ObservedEvent], memory: Memory, policy: AgentPolicy, expected: list[Action]
) -> None:
    actions = plan(document(*shown), memory, ME, policy, NOON)

    assert list(actions) == expected


@pytest.mark.rule("C-04")
@pytest.mark.parametrize("incarnation", [1, 7, "-1", ""])
def test_an_incarnation_that_starts_again_is_read_all_the_same(incarnation: int | str) -> None:
    memory = ready(E1)

    actions = plan(document(E2, incarnation=incarnation), memory, ME, POLICY, NOON)

    assert actions == (PrepareAction(E2, DRAIN), RecoverAction(READY_1))


@pytest.mark.rule("C-09")
@pytest.mark.parametrize(
    ("event", "margin", "expected"),
    [
        pytest.param(E1, 30, 870, id="a margin before the event may start"),
        pytest.param(seen(notice=timedelta(seconds=20)), 30, 20, id="a margin that is used up gives way"),
        pytest.param(seen(notice=timedelta(0)), 30, None, id="what may start now has no deadline"),
        pytest.param(seen(notice=None), 30, None, id="no date, no deadline"),
        pytest.param(started(E1), 30, None, id="what has started has no deadline"),
        pytest.param(
            replace(E1, not_before=datetime.min.replace(tzinfo=UTC)),
            30,
            None,
            id="a date at the beginning of the calendar has passed",
        ),
    ],
)
def test_preparing_ends_in_time(event: ObservedEvent, margin: int, expected: int | None) -> None:
    limit = deadline(event, timedelta(seconds=margin), NOON)

    assert limit == (None if expected is None else NOON + timedelta(seconds=expected))


@pytest.mark.rule("C-13")
def test_the_policies_of_others_can_be_written_as_rules() -> None:
    kubernetes = Rule(name="aks", types=frozenset({"redeploy", "preempt", "terminate"}), drains=True)
    pacemaker = Rule(name="pcmk", types=frozenset({"reboot", "redeploy"}), drains=True, tries=3)

    def drained(rule: Rule) -> set[str]:
        shown = document(*(seen(kind, kind, duration=30) for kind in KINDS))
        actions = plan(shown, Memory(), ME, AgentPolicy(rules=(rule,)), NOON)
        return {
            action.event.kind
            for action in actions
            if isinstance(action, PrepareAction) and action.rule is rule
        }

    assert drained(kubernetes) == {"Redeploy", "Preempt", "Terminate"}
    assert drained(pacemaker) == {"Reboot", "Redeploy"}


KINDS = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
