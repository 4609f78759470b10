"""The verdicts on observations."""

import pytest

from fairwarning.check.judge import ExpectationOutcome, judge
from fairwarning.check.observations import CausedEvent
from tests.check.observations import (
    E1,
    E2,
    TIMING,
    Observation,
    drain,
    get,
    happen,
    life,
    observed,
    post,
    recover,
    scenario,
    spell,
)
from tests.check.verdicts import (
    AFTERWARDS,
    APPROVES,
    AT_MOST,
    BEFORE_START,
    BROKEN,
    EVICT,
    HISTORY,
    IN_FAULT,
    KEEPS_ASKING,
    KEEPS_RUNNING,
    MET,
    NEVER,
    NEVER_DRAINS,
    NOT_SHOWN,
    ONCE,
    ONLY_AFTER,
    PROMPTLY,
    READS,
    RECOVERS,
    RESTART,
    SLOW,
    STAYS,
    Expectation,
    verdict_on,
)

REDEPLOY = CausedEvent(id=E2, label="redeploy", cause="redeploy", resources=("web_0",))
NEIGHBOUR = CausedEvent(id=E1, label="restart", cause="restart", resources=("web_1",))
BOTH = CausedEvent(id=E1, label="restart", cause="restart", resources=("web_0", "web_1"))
SECOND = (happen(2, "scheduled", E2), happen(16, "started", E2), happen(30, "finished", E2))

ONE_MACHINE = [
    pytest.param(APPROVES, (post(3),), MET, "", id="an approval before the event starts is in time"),
    pytest.param(
        APPROVES,
        (),
        BROKEN,
        "web_0 did not approve the restart in 15.0 s",
        id="no approval during the notice",
    ),
    pytest.param(
        APPROVES,
        (post(18.5),),
        BROKEN,
        "web_0 approved the restart 2.5 s after it had started by itself",
        id="an approval of what has started is too late",
    ),
    pytest.param(
        APPROVES,
        (post(3, status=400),),
        BROKEN,
        "web_0 did not approve the restart in 15.0 s",
        id="an approval that was refused is none",
    ),
    pytest.param(PROMPTLY, (post(5),), MET, "", id="an approval within its time"),
    pytest.param(
        PROMPTLY,
        (post(8),),
        BROKEN,
        "web_0 approved the restart only after 7.0 s, not within 5.0 s",
        id="an approval that takes longer than its time",
    ),
    pytest.param(
        AFTERWARDS, (spell(0, 9), post(12)), MET, "", id="time counts from the end of a fault, if so sentence"
    ),
    pytest.param(NEVER, (), MET, "", id="nothing is approved"),
    pytest.param(
        NEVER,
        (post(3, status=500),),
        BROKEN,
        "web_0 approved the restart of web_0, 2.0 s after it was announced",
        id="to try is enough where nothing is to be approved",
    ),
    pytest.param(ONCE, (post(3),), MET, "", id="one approval"),
    pytest.param(
        ONCE,
        (post(3), post(4), post(5)),
        BROKEN,
        "web_0 approved the restart 3 times within 2.0 s; the first answer was 200",
        id="three approvals of the same event",
    ),
    pytest.param(
        ONCE,
        (post(3, status=429), post(4, status=None), post(5, status=503), post(8)),
        MET,
        "",
        id="what got no answer worth the name may be tried again",
    ),
    pytest.param(
        ONCE,
        (post(3, status=400), post(4, status=400)),
        BROKEN,
        "web_0 approved the restart 2 times within 1.0 s; the first answer was 400",
        id="a refusal is an answer",
    ),
    pytest.param(ONLY_AFTER, (drain(1, 3), post(3.5)), MET, "", id="drained, then approved"),
    pytest.param(
        ONLY_AFTER, (drain(1, 3, event=None), post(3.5)), MET, "", id="a drain for no event in particular"
    ),
    pytest.param(ONLY_AFTER, (drain(1, 3, ok=False),), MET, "", id="a drain that failed, and no approval"),
    pytest.param(
        ONLY_AFTER,
        (recover(2),),
        NOT_SHOWN,
        "web_0 neither drained for the restart nor approved it",
        id="a handler that does nothing about the event",
    ),
    pytest.param(
        ONLY_AFTER,
        (drain(1, 6.2), post(3)),
        BROKEN,
        "web_0 approved the restart 3.2 s before the drain of web_0 ended",
        id="approved while draining",
    ),
    pytest.param(
        ONLY_AFTER,
        (drain(1, 3, ok=False), post(3.5)),
        BROKEN,
        "web_0 approved the restart although the drain of web_0 failed",
        id="approved after a drain that failed",
    ),
    pytest.param(
        ONLY_AFTER,
        (drain(1, None), post(3.5)),
        BROKEN,
        "web_0 approved the restart while the drain of web_0 was running",
        id="approved after a drain that never ended",
    ),
    pytest.param(
        ONLY_AFTER,
        (drain(1, 3, event=E2), post(3.5)),
        BROKEN,
        "web_0 approved the restart before it was drained at all",
        id="drained for another event",
    ),
    pytest.param(
        ONLY_AFTER,
        (post(3.5),),
        NOT_SHOWN,
        "web_0 approved the restart; whether it was drained could not be observed",
        id="a handler whose drain nobody can see",
    ),
    pytest.param(NEVER_DRAINS, (drain(1, 3, event=E2),), MET, "", id="drained for another event only"),
    pytest.param(
        NEVER_DRAINS,
        (drain(1, 3),),
        BROKEN,
        "web_0 was drained for the restart of web_0",
        id="drained though it should not be",
    ),
    pytest.param(
        NEVER_DRAINS,
        (),
        NOT_SHOWN,
        "whether web_0 was drained for the restart could not be observed",
        id="nothing is seen of drains",
    ),
    pytest.param(READS, (get(4, E1),), MET, "", id="read in time"),
    pytest.param(
        READS,
        (get(9, E1),),
        BROKEN,
        "web_0 first read of the restart after 8.0 s, not within 5.0 s",
        id="read too late",
    ),
    pytest.param(
        READS, (get(9, E2),), BROKEN, "web_0 never read a document with the restart", id="never read"
    ),
    pytest.param(RECOVERS, (drain(1, 3), recover(22)), MET, "", id="recovered when the event has gone"),
    pytest.param(RECOVERS, (drain(1, 3, event=E2),), MET, "", id="what was not drained need not recover"),
    pytest.param(
        RECOVERS,
        (drain(1, 3), get(19, E1), get(19.5), recover(19.6)),
        MET,
        "",
        id="an event has gone as soon as a machine reads so",
    ),
    pytest.param(
        RECOVERS,
        (drain(1, 3), recover(28)),
        BROKEN,
        "web_0 recovered from the restart only 8.0 s after it was gone",
        id="recovered late",
    ),
    pytest.param(
        RECOVERS,
        (drain(1, 3),),
        BROKEN,
        "web_0 had not recovered 40.0 s after the restart was gone",
        id="never recovered",
    ),
    pytest.param(
        RECOVERS,
        (drain(1, 3), life(0, 17), life(30), recover(33)),
        MET,
        "",
        id="a machine that was down recovers when it is back",
    ),
    pytest.param(
        RECOVERS,
        (),
        NOT_SHOWN,
        "whether web_0 was drained for the restart could not be observed",
        id="nothing is seen of recoveries",
    ),
    pytest.param(STAYS, (drain(1, 3), recover(22)), MET, "", id="stays drained until the event has gone"),
    pytest.param(
        STAYS,
        (drain(1, 3), recover(17)),
        BROKEN,
        "web_0 recovered 3.0 s before the restart was gone",
        id="goes back to work under an event that has started",
    ),
    pytest.param(AT_MOST, (get(3), get(3.5), get(4.2)), MET, "", id="as often as allowed"),
    pytest.param(
        AT_MOST,
        (get(3), get(3.5), get(3.9)),
        BROKEN,
        "web_0 sent 3 requests within 0.9 s, 3.0 s into the scenario",
        id="more often than allowed",
    ),
    pytest.param(
        IN_FAULT, (spell(10, 20), get(3), get(3.1), get(3.2)), MET, "", id="only a fault calls for restraint"
    ),
    pytest.param(
        IN_FAULT,
        (spell(10, 20), get(13), get(13.1), get(13.2)),
        BROKEN,
        "web_0 sent 3 requests within 0.2 s, 13.0 s into the scenario",
        id="pressing on during a fault",
    ),
    pytest.param(
        IN_FAULT,
        (get(13), get(13.1), get(14.2)),
        NOT_SHOWN,
        "the endpoint of web_0 never had a fault",
        id="without a fault, restraint is not to be seen",
    ),
    pytest.param(
        KEEPS_ASKING,
        (life(0, 30), get(5), get(12, lasts=12), get(25)),
        MET,
        "",
        id="a request that is held counts as asking",
    ),
    pytest.param(
        KEEPS_ASKING,
        (life(0, 40), get(5), get(28), get(35)),
        BROKEN,
        "web_0 sent no request for 23.0 s, from 5.0 s into the scenario",
        id="a long silence",
    ),
    pytest.param(
        KEEPS_ASKING, (life(0, 5), life(30, 36), get(31)), MET, "", id="who does not run need not ask"
    ),
    pytest.param(
        APPROVES,
        (life(0, 2, 1, ended_by_step=False),),
        BROKEN,
        "web_0 did not approve the restart: it had died, with exit code 1",
        id="a handler that had died",
    ),
    pytest.param(
        READS,
        (life(0, 2, 0, ended_by_step=False),),
        BROKEN,
        "web_0 never read a document with the restart: it had ended by itself, with exit code 0",
        id="a handler that had ended",
    ),
    pytest.param(KEEPS_RUNNING, (life(0, 30, -9),), MET, "", id="what we ended did not end by itself"),
    pytest.param(
        KEEPS_RUNNING,
        (life(0, 12, 1, ended_by_step=False),),
        BROKEN,
        "web_0 died 12.0 s into the scenario, with exit code 1",
        id="a crash",
    ),
]


@pytest.mark.parametrize(("expectation", "seen", "outcome", "sentence"), ONE_MACHINE)
def test_a_verdict_says_what_was_seen(
    expectation: Expectation, seen: tuple[Observation, ...], outcome: ExpectationOutcome, sentence: str
) -> None:
    verdict = verdict_on(expectation, observed(*HISTORY, *seen, events=(RESTART,)))

    assert verdict == (outcome, sentence)


@pytest.mark.rule("C-06")
@pytest.mark.parametrize(
    ("expectation", "seen", "outcome", "sentence"),
    [
        pytest.param(APPROVES, (drain(1, 3), post(4)), MET, "", id="an approval in time"),
        pytest.param(
            APPROVES, (drain(1, 3),), SLOW, "web_0 did not approve the eviction in 15.0 s", id="a drain alone"
        ),
        pytest.param(
            APPROVES,
            (post(18),),
            SLOW,
            "web_0 approved the eviction 2.0 s after it had started by itself",
            id="an approval that is late",
        ),
        pytest.param(
            PROMPTLY,
            (post(8),),
            SLOW,
            "web_0 approved the eviction only after 7.0 s, not within 5.0 s",
            id="an approval that takes longer than its time",
        ),
        pytest.param(
            APPROVES,
            (),
            NOT_SHOWN,
            "web_0 neither drained for the eviction nor approved it",
            id="nothing at all",
        ),
    ],
)
def test_a_late_approval_is_slow_where_no_user_waits(
    expectation: Expectation, seen: tuple[Observation, ...], outcome: ExpectationOutcome, sentence: str
) -> None:
    verdict = verdict_on(expectation, observed(*HISTORY, *seen, events=(EVICT,)))

    assert verdict == (outcome, sentence)


@pytest.mark.rule("C-10")
def test_a_machine_that_another_event_still_needs_drained_does_not_go_back_to_work() -> None:
    seen = observed(*HISTORY, *SECOND, drain(1, 3), drain(3, 4, E2), recover(21), events=(RESTART, REDEPLOY))

    verdict = verdict_on(STAYS, seen)

    assert verdict == (BROKEN, "web_0 recovered 9.0 s before the redeploy was gone")


@pytest.mark.rule("C-10")
def test_a_machine_recovers_when_the_last_of_two_events_has_gone() -> None:
    drained = (drain(1, 3), drain(3, 4, E2))
    seen = observed(*HISTORY, *SECOND, *drained, recover(31), recover(31, E2), events=(RESTART, REDEPLOY))

    verdicts = (verdict_on(STAYS, seen), verdict_on(RECOVERS, seen))

    assert verdicts == ((MET, ""), (MET, ""))


@pytest.mark.rule("C-05")
def test_a_drain_for_no_event_in_particular_is_not_for_one_that_has_gone() -> None:
    seen = observed(*HISTORY, drain(25, 26, event=None), events=(NEIGHBOUR,))

    assert verdict_on(NEVER_DRAINS, seen) == (MET, "")


@pytest.mark.rule("C-06")
@pytest.mark.parametrize(
    ("between", "outcome"),
    [
        pytest.param((), MET, id="a machine that has been drained since is drained for what comes later"),
        pytest.param((recover(1.5, None),), BROKEN, id="a machine that went back to work is not"),
    ],
)
def test_a_drain_for_no_event_in_particular_lasts_until_the_machine_goes_back_to_work(
    between: tuple[Observation, ...], outcome: ExpectationOutcome
) -> None:
    seen = observed(*SECOND, drain(0, 1, event=None), *between, post(3, E2), events=(REDEPLOY,))

    verdict, _ = verdict_on(ONLY_AFTER, seen)

    assert verdict is outcome


@pytest.mark.rule("C-18")
@pytest.mark.parametrize(
    ("seen", "outcome", "sentence"),
    [
        pytest.param((drain(1, 3),), MET, "", id="drained during the notice"),
        pytest.param(
            (drain(16.5, 17),),
            BROKEN,
            "web_0 began its drain for the restart 0.5 s after it had started",
            id="drained when the event has started",
        ),
        pytest.param(
            (drain(1, 3, event=E2),),
            BROKEN,
            "web_0 was not drained for the restart",
            id="drained for another event only, though it can be seen",
        ),
        pytest.param(
            (),
            NOT_SHOWN,
            "web_0 was not seen to drain for the restart",
            id="no drain to be seen",
        ),
    ],
)
def test_a_machine_is_drained_before_its_event_starts(
    seen: tuple[Observation, ...], outcome: ExpectationOutcome, sentence: str
) -> None:
    verdict = verdict_on(BEFORE_START, observed(*HISTORY, *seen, events=(RESTART,)))

    assert verdict == (outcome, sentence)


@pytest.mark.rule("C-02")
@pytest.mark.parametrize(
    ("event", "ended", "outcome"),
    [
        pytest.param(EVICT, life(0, 5, 0, ended_by_step=False), MET, id="drained, and done"),
        pytest.param(EVICT, life(0, 2, 0, ended_by_step=False), BROKEN, id="before the drain has ended"),
        pytest.param(EVICT, life(0, 5, 1, ended_by_step=False), BROKEN, id="a crash"),
        pytest.param(RESTART, life(0, 5, 0, ended_by_step=False), BROKEN, id="a machine that comes back"),
    ],
)
def test_a_handler_may_end_when_its_machine_is_drained_for_good(
    event: CausedEvent, ended: Observation, outcome: ExpectationOutcome
) -> None:
    verdict, _ = verdict_on(KEEPS_RUNNING, observed(*HISTORY, drain(1, 3), ended, events=(event,)))

    assert verdict is outcome


@pytest.mark.rule("C-07")
@pytest.mark.parametrize("approvals", [(), (post(5),)], ids=["no approval", "an approval that comes second"])
def test_a_handler_is_not_late_for_an_event_that_another_machine_approved(
    approvals: tuple[Observation, ...],
) -> None:
    early = (happen(1, "scheduled"), happen(3, "approved"), happen(3, "started"))

    verdict = verdict_on(APPROVES, observed(*early, *approvals, events=(RESTART,)))

    assert verdict == (MET, "")


@pytest.mark.rule("C-05")
@pytest.mark.parametrize("expectation", [APPROVES, ONLY_AFTER])
def test_what_names_another_machine_need_not_be_approved(expectation: Expectation) -> None:
    seen = observed(*HISTORY, events=(NEIGHBOUR,))

    assert verdict_on(expectation, seen) == (MET, "")


@pytest.mark.rule("C-07")
@pytest.mark.parametrize(
    ("label", "resources", "sentence"),
    [
        pytest.param("delete of web_1", ("web_1",), "the delete of web_1", id="a label that names it"),
        pytest.param("evict", ("web_1",), "the eviction of web_1", id="no label"),
        pytest.param("our delete", ("web_1",), "our delete of web_1", id="a label that does not"),
        pytest.param("host-reboot", ("web_1", "web_2"), "the host reboot of web_1 and web_2", id="two"),
    ],
)
def test_a_sentence_names_the_event_and_its_machines_once(
    label: str, resources: tuple[str, ...], sentence: str
) -> None:
    event = CausedEvent(id=E1, label=label, cause="delete", resources=resources)

    verdict = verdict_on(NEVER, observed(*HISTORY, post(3), events=(event,)))

    assert verdict == (BROKEN, f"web_0 approved {sentence}, 2.0 s after it was announced")


@pytest.mark.rule("C-07")
def test_an_approval_waits_for_every_machine_that_the_event_names() -> None:
    drained = drain(1, 2), drain(1, 5, machine="web_1")
    seen = observed(*HISTORY, *drained, post(2.5), events=(BOTH,), served=("web_0", "web_1"))

    verdict = verdict_on(ONLY_AFTER, seen, "web_0", "web_1")

    assert verdict == (BROKEN, "web_0 approved the restart 2.5 s before the drain of web_1 ended")


@pytest.mark.parametrize("expectation", [ONLY_AFTER, NEVER_DRAINS, BEFORE_START, RECOVERS, STAYS])
def test_a_verdict_says_if_drains_could_not_be_observed(expectation: Expectation) -> None:
    story = scenario(**expectation)
    shown, not_shown = (
        judge(story, observed(*HISTORY, *seen, post(5), events=(RESTART,)), TIMING)[0]
        for seen in ((drain(2, 3),), ())
    )

    assert (shown.hidden, not_shown.hidden) == (False, True)
