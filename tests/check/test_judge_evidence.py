"""What must be observed before a handler is judged."""

from dataclasses import replace

import pytest

from fairwarning.check.judge import ExpectationOutcome, judge
from fairwarning.check.scenario import Timing
from tests.check.observations import (
    E1,
    TIMING,
    Observation,
    after,
    drain,
    get,
    happen,
    life,
    observed,
    post,
    recover,
    refused,
    scenario,
)
from tests.check.verdicts import (
    APPROVES,
    AT_MOST,
    BROKEN,
    HISTORY,
    KEEPS_ASKING,
    KEEPS_RUNNING,
    MET,
    NEVER,
    NEVER_DRAINS,
    NOT_SHOWN,
    NOT_STARTED,
    ONCE,
    ONLY_AFTER,
    READS,
    RECOVERS,
    RESTART,
    STAYS,
    Expectation,
    verdict_on,
)


@pytest.mark.rule("C-01")
@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        pytest.param(
            (get(1, status=None),), "requests: 1; the last request was not answered", id="no answer"
        ),
        pytest.param(
            (refused(1, 400), refused(2, 429)),
            'requests: 2; the answer was 400: {"error": "no"}',
            id="a refusal says more than that it asks too often",
        ),
        pytest.param(
            (refused(1, 404), refused(2, 429)),
            'requests: 2; the answer was 429: {"error": "no"}',
            id="else the last answer counts",
        ),
        pytest.param(
            (get(1, status=None), life(0, 2, 3, ended_by_step=False)),
            "requests: 1; the last request was not answered; it ended with exit code 3",
            id="it crashed",
        ),
    ],
)
def test_a_handler_that_never_gets_a_document_is_judged_on_that(
    seen: tuple[Observation, ...], sentence: str
) -> None:
    silent = observed(*seen, ended=30, served=())

    (verdict,) = judge(scenario(**APPROVES), silent, TIMING)

    assert (verdict.expect, verdict.rule, verdict.outcome) == ("asks", "C-01", BROKEN)
    assert verdict.sentences == (f"web_0 was not served a document in 29.0 s; {sentence}",)


@pytest.mark.rule("C-01")
@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        pytest.param((life(2),), "web_0 sent no request in 28.0 s", id="it never asked"),
        pytest.param(
            (life(0, 2, 3, ended_by_step=False),),
            "web_0 ended with exit code 3 before its first request",
            id="it crashed",
        ),
    ],
)
def test_a_handler_without_a_request_did_not_start_and_is_not_judged(
    seen: tuple[Observation, ...], sentence: str
) -> None:
    silent = observed(*HISTORY, *seen, events=(RESTART,), ended=30, served=())

    verdicts = [judge(scenario(**expectation), silent, TIMING) for expectation in (APPROVES, KEEPS_RUNNING)]

    assert [(verdict.expect, verdict.outcome, verdict.sentences) for (verdict,) in verdicts] == [
        ("starts", NOT_STARTED, (sentence,))
    ] * 2


@pytest.mark.rule("C-07")
def test_a_handler_that_started_is_judged_even_if_its_neighbour_did_not() -> None:
    seen = observed(*HISTORY, drain(1, 6), post(3), life(0), events=(RESTART,))

    starts, verdict = judge(scenario("web_0", "web_1", **ONLY_AFTER), seen, TIMING)

    assert (starts.outcome, starts.sentences) == (NOT_STARTED, ("web_1 sent no request in 60.0 s",))
    assert verdict.sentences == ("web_0 approved the restart 3.0 s before the drain of web_0 ended",)


STARTING = (life(0, 5), life(6), get(20))


@pytest.mark.parametrize(
    ("expectation", "seen", "outcome", "sentence"),
    [
        pytest.param(KEEPS_ASKING, (life(0), get(14), get(20), get(29)), MET, "", id="silence"),
        pytest.param(
            KEEPS_ASKING,
            (life(0), get(0.5), get(20)),
            BROKEN,
            "web_0 sent no request for 19.5 s, from 0.5 s into the scenario",
            id="silence after the first request counts",
        ),
        pytest.param(READS, (*STARTING, get(21, E1)), MET, "", id="a document that is read late"),
        pytest.param(RECOVERS, (*STARTING, drain(1, 3), recover(24)), MET, "", id="a late recovery"),
        pytest.param(
            APPROVES, STARTING, NOT_SHOWN, "the restart started while web_0 was starting", id="no approval"
        ),
    ],
)
def test_the_time_in_which_a_handler_starts_does_not_count_against_it(
    expectation: Expectation, seen: tuple[Observation, ...], outcome: ExpectationOutcome, sentence: str
) -> None:
    # The event comes after 6.5 s and starts after 16 s; the handler asks 14 s after its start.
    history = (happen(6.5, "scheduled"), happen(16, "started"), happen(18, "finished"))
    served = () if expectation is KEEPS_ASKING else ("web_0",)
    starting = observed(*history, *seen, events=(RESTART,), ended=30, served=served)

    assert verdict_on(expectation, starting) == (outcome, sentence)


def test_a_handler_that_takes_longer_than_its_time_to_start_is_silent() -> None:
    timing = Timing(start_within=after(5))
    silent = observed(life(0, 2), life(3), ended=20)

    (verdict,) = judge(scenario(**KEEPS_ASKING), silent, timing)

    assert verdict.sentences == ("web_0 sent no request for 12.0 s, from 8.0 s into the scenario",)


@pytest.mark.rule("R-10")
def test_a_handler_that_never_gets_a_document_may_still_ask_too_often() -> None:
    hammering = observed(refused(3, 400), refused(3.1, 400), refused(3.2, 400), served=())

    _, verdict = judge(scenario(**AT_MOST), hammering, TIMING)

    assert verdict.sentences == ("web_0 sent 3 requests within 0.2 s, 3.0 s into the scenario",)


@pytest.mark.parametrize(
    "expectation", [APPROVES, NEVER, ONCE, ONLY_AFTER, NEVER_DRAINS, READS, RECOVERS, STAYS]
)
@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        pytest.param({}, "an event was never announced", id="any event"),
        pytest.param({"event": "restart"}, "the restart was never announced", id="one event"),
    ],
)
def test_nothing_is_shown_about_an_event_that_never_came(
    expectation: Expectation, about: Expectation, sentence: str
) -> None:
    verdict = verdict_on(
        {**expectation, **about}, observed(life(0), served=("web_0", "web_1")), "web_0", "web_1"
    )

    assert verdict == (NOT_SHOWN, sentence)


@pytest.mark.parametrize("expectation", [APPROVES, ONCE, AT_MOST, KEEPS_RUNNING])
def test_a_scenario_without_all_its_steps_shows_nothing(expectation: Expectation) -> None:
    seen = replace(observed(*HISTORY, post(3), life(0), events=(RESTART,), ended=20), steps_left=1)

    assert verdict_on(expectation, seen) == (
        NOT_SHOWN,
        "the scenario ended after 20.0 s and did not run 1 of its 1 steps",
    )


def test_a_scenario_without_all_its_steps_may_show_what_was_broken() -> None:
    seen = replace(observed(life(0, 12, 1, ended_by_step=False)), steps_left=1)

    assert verdict_on(KEEPS_RUNNING, seen) == (
        BROKEN,
        "web_0 died 12.0 s into the scenario, with exit code 1",
    )


def test_an_event_that_has_not_gone_says_nothing_about_recovering() -> None:
    seen = observed(happen(1, "scheduled"), drain(1, 3), events=(RESTART,), ended=10)

    assert verdict_on(RECOVERS, seen) == (NOT_SHOWN, "the restart was not over when the scenario ended")


def test_a_scenario_that_ended_too_soon_says_nothing_about_recovering() -> None:
    seen = observed(*HISTORY, drain(1, 3), events=(RESTART,), ended=22)

    assert verdict_on(RECOVERS, seen) == (
        NOT_SHOWN,
        "web_0 had not recovered 2.0 s after the restart was gone, when the scenario ended",
    )
