"""Whether a handler did what a scenario expects: pure functions from observations to verdicts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias, assert_never

from fairwarning.check.observations import Asked, CausedEvent, Observed, Phase
from fairwarning.check.scenario import (
    AboutEvents,
    Approves,
    ApprovesOnce,
    ApprovesOnlyAfterDrain,
    AsksAtMost,
    Expected,
    KeepsAsking,
    KeepsRunning,
    NeverApproves,
    NeverDrains,
    Reads,
    Recovers,
    Scenario,
    StaysDrained,
)
from fairwarning.check.timing import Timing

#: C-01: the rule that whoever never asks breaks.
ASKS, ASKS_RULE = "asks", "C-01"

#: How much of an answer is repeated.
LONGEST_ANSWER = 120

_NOTHING = timedelta(0)


class ExpectationOutcome(StrEnum):
    """What is known about an expectation."""

    MET = "met"
    NOT_SHOWN = "not shown"
    BROKEN = "broken"


def worst(outcomes: Iterable[ExpectationOutcome]) -> ExpectationOutcome:
    """Return the worst of these; of none, that all is met."""
    return max(outcomes, key=list(ExpectationOutcome).index, default=ExpectationOutcome.MET)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen, and what it means."""

    outcome: ExpectationOutcome
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known about one expectation, with the sentences that say why."""

    expect: str
    rule: str
    outcome: ExpectationOutcome
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Case:
    """One expectation, applied to one machine."""

    machine: str
    scenario: Scenario
    observed: Observed
    pace: Timing

    @property
    def lives(self) -> tuple[tuple[timedelta, timedelta], ...]:
        """The whiles during which the handler ran."""
        mine = (one for one in self.observed.lives if one.machine == self.machine)
        return tuple((one.begun, self.observed.ended if one.ended is None else one.ended) for one in mine)


_Findings: TypeAlias = Iterator[Finding]


def judge(scenario: Scenario, observed: Observed, pace: Timing) -> tuple[Verdict, ...]:
    """Return a verdict on each expectation; if a handler was never served, on that and on what it broke."""
    verdicts = tuple(_verdict(one, scenario, observed, pace) for one in scenario.expect)
    silent = [name for name in scenario.handlers if not any(one.served for one in observed.of(name))]
    if not silent:
        return verdicts
    sentences = tuple("; ".join(_never_served(name, observed)) for name in silent)
    asks = Verdict(expect=ASKS, rule=ASKS_RULE, outcome=ExpectationOutcome.BROKEN, sentences=sentences)
    return (asks, *(one for one in verdicts if one.outcome is ExpectationOutcome.BROKEN))


def _never_served(machine: str, observed: Observed) -> Iterator[str]:
    asked = list(observed.of(machine))
    yield f"{machine} was not served a document in {_long(observed.ended)}"
    yield f"requests: {len(asked)}"
    # Whoever asks too often is told so in the end; what it was told before that says more.
    for last in ([one for one in asked if one.final] or asked)[-1:]:
        yield "the last one was not answered" if last.status is None else f"it was told {_said(last)}"
    for life in observed.lives:
        if life.machine == machine and life.code is not None and not life.ours:
            yield f"it ended with exit code {life.code}"
            return


def _said(asked: Asked) -> str:
    text = " ".join(asked.answer.decode(errors="replace").split())[:LONGEST_ANSWER]
    return f"{asked.status}: {text}" if text else f"{asked.status}"


def _verdict(expected: Expected, scenario: Scenario, observed: Observed, pace: Timing) -> Verdict:
    cases = [
        _Case(name, scenario, observed, pace)
        for name in scenario.handlers
        if expected.machine in (None, name)
    ]
    findings = [finding for case in cases for finding in _find(expected, case)]
    if observed.untaken and not findings:
        findings = [_cut_short(scenario, observed)]
    outcome = worst(one.outcome for one in findings)
    return Verdict(
        expect=str(type(expected).__struct_config__.tag),
        rule=expected.rule,
        outcome=outcome,
        sentences=tuple(dict.fromkeys(one.sentence for one in findings if one.outcome is outcome)),
    )


def _cut_short(scenario: Scenario, observed: Observed) -> Finding:
    left = f"{observed.untaken} of its {len(scenario.steps)} steps"
    return _not_shown(f"the play was over after {_long(observed.ended)}, without {left}")


def _find(expected: Expected, case: _Case) -> _Findings:
    match expected:
        case AsksAtMost():
            yield from _asks_at_most(expected, case)
        case KeepsAsking():
            yield from _keeps_asking(expected, case)
        case KeepsRunning():
            yield from _keeps_running(case)
        case _:
            events = [one for one in case.observed.events if expected.event in (None, one.label)]
            if not events:
                yield _not_shown(f"{expected.event or 'an event'} was never announced")
            for event in events:
                yield from _about(expected, case, event)


def _about(expected: AboutEvents, case: _Case, event: CausedEvent) -> _Findings:
    match expected:
        case Approves():
            yield from _approves(expected, case, event)
        case NeverApproves():
            yield from _never_approves(case, event)
        case ApprovesOnce():
            yield from _approves_once(case, event)
        case ApprovesOnlyAfterDrain():
            yield from _approves_only_after_drain(case, event)
        case NeverDrains():
            yield from _never_drains(case, event)
        case Reads():
            yield from _reads(expected, case, event)
        case Recovers():
            yield from _recovers(expected, case, event)
        case StaysDrained():
            yield from _stays_drained(case, event)
        case _:
            assert_never(expected)


def _approves(expected: Approves, case: _Case, event: CausedEvent) -> _Findings:
    observed, me = case.observed, case.machine
    if me not in event.resources:
        return
    since = observed.announced(event.id) or _NOTHING
    if expected.since == "healed":
        since = max((since, *(spell.ended for spell in observed.spells)))
    accepted = next((one for one in observed.approvals(me, event.id) if one.accepted), None)
    within = None if expected.within is None else case.pace.length(expected.within)
    started = observed.first(event.id, "started")
    if accepted is None:
        until = observed.ended if started is None else started
        yield _broken(f"{me} did not approve {event.label} in {_long(max(until - since, _NOTHING))}")
    elif within is not None and accepted.begun - since > within:
        took = _long(accepted.begun - since)
        yield _broken(f"{me} approved {event.label} only after {took}, not within {_long(within)}")
    elif within is None and started is not None and accepted.begun > started:
        yield _broken(
            f"{me} approved {event.label} {_long(accepted.begun - started)} after it had started by itself"
        )


def _never_approves(case: _Case, event: CausedEvent) -> _Findings:
    for one in case.observed.approvals(case.machine, event.id)[:1]:
        since = one.begun - (case.observed.announced(event.id) or _NOTHING)
        yield _broken(
            f"{case.machine} approved {event.label} of {', '.join(event.resources)}, {_long(since)} "
            f"after it was announced"
        )


def _approves_once(case: _Case, event: CausedEvent) -> _Findings:
    final = [one for one in case.observed.approvals(case.machine, event.id) if one.final]
    if len(final) > 1:
        over = _long(final[-1].begun - final[0].begun)
        yield _broken(
            f"{case.machine} approved {event.label} {len(final)} times within {over}; "
            f"the first answer was {final[0].status}"
        )


def _approves_only_after_drain(case: _Case, event: CausedEvent) -> _Findings:
    accepted = [one for one in case.observed.approvals(case.machine, event.id) if one.accepted][:1]
    for approval in accepted:
        for machine in case.scenario.handlers:
            if machine in event.resources:
                yield from _drained_before(approval, machine, case, event)


def _drained_before(approval: Asked, machine: str, case: _Case, event: CausedEvent) -> _Findings:
    me, drains = case.machine, case.observed.hooked(machine, Phase.DRAIN, event.id)
    if any(one.ok and one.ended is not None and one.ended <= approval.begun for one in drains):
        return
    whose = "it" if machine == me else machine
    later = [one.ended for one in drains if one.ok and one.ended is not None]
    if later:
        early = _long(min(later) - approval.begun)
        yield _broken(f"{me} approved {event.label} {early} before the drain of {machine} ended")
    elif any(one.ended is not None for one in drains):
        yield _broken(f"{me} approved {event.label} although the drain of {machine} failed")
    elif drains:
        yield _broken(f"{me} approved {event.label} while the drain of {machine} was under way")
    elif _shows(case.observed, machine):
        yield _broken(f"{me} approved {event.label} before {whose} was drained at all")
    else:
        yield _not_shown(f"{me} approved {event.label}; whether {whose} was drained was not to be seen")


def _never_drains(case: _Case, event: CausedEvent) -> _Findings:
    if case.observed.hooked(case.machine, Phase.DRAIN, event.id):
        yield _broken(f"{case.machine} was drained for {event.label} of {', '.join(event.resources)}")
    elif not _shows(case.observed, case.machine):
        yield _not_shown(f"whether {case.machine} was drained for {event.label} was not to be seen")


def _reads(expected: Reads, case: _Case, event: CausedEvent) -> _Findings:
    within, read = case.pace.length(expected.within), case.observed.read(case.machine, event.id)
    since = case.observed.announced(event.id) or _NOTHING
    if read is None:
        yield _broken(f"{case.machine} never read of {event.label}")
    elif read - since > within:
        took = _long(read - since)
        yield _broken(f"{case.machine} read of {event.label} only after {took}, not within {_long(within)}")


def _recovers(expected: Recovers, case: _Case, event: CausedEvent) -> _Findings:
    observed, me, within = case.observed, case.machine, case.pace.length(expected.within)
    if not _shows(observed, me):
        yield _not_shown(f"whether {me} was drained for {event.label} was not to be seen")
        return
    gone = observed.gone(event.id)
    if not observed.hooked(me, Phase.DRAIN, event.id):
        return
    if gone is None:
        yield _not_shown(f"{event.label} was not over when the play ended")
        return
    since = _free(case, gone)
    recovered = [one.begun for one in observed.hooked(me, Phase.RECOVER, event.id) if one.begun >= gone]
    if recovered and recovered[0] - since > within:
        took = _long(recovered[0] - since)
        yield _broken(f"{me} recovered from {event.label} only {took} after it had gone")
    if not recovered:
        waited = f"had not recovered {_long(observed.ended - since)} after {event.label} had gone"
        enough = observed.ended - since >= within
        yield _broken(f"{me} {waited}") if enough else _not_shown(f"{me} {waited}, when the play ended")


def _free(case: _Case, gone: timedelta) -> timedelta:
    """Return when nothing kept a machine from going back to work: no other event, and no reboot."""
    observed = case.observed
    for other in observed.events:
        came, went = observed.announced(other.id), observed.gone(other.id)
        if case.machine in other.resources and came is not None and went is not None and came < gone < went:
            return _free(case, went)
    return max((gone, *(begun for begun, ended in case.lives if ended > gone)))


def _stays_drained(case: _Case, event: CausedEvent) -> _Findings:
    observed, me = case.observed, case.machine
    drains = observed.hooked(me, Phase.DRAIN, event.id)
    if not drains:
        if me in event.resources and not _shows(observed, me):
            yield _not_shown(f"whether {me} was drained for {event.label} was not to be seen")
        return
    gone = observed.gone(event.id)
    until = observed.ended if gone is None else gone
    for one in observed.hooks:
        if one.machine == me and one.phase is Phase.RECOVER and drains[0].begun <= one.begun < until:
            yield _broken(f"{me} went back to work {_long(until - one.begun)} before {event.label} had gone")
            return


def _asks_at_most(expected: AsksAtMost, case: _Case) -> _Findings:
    spells = [one for one in case.observed.spells if one.machine == case.machine]
    if expected.during == "fault" and not spells:
        yield _not_shown(f"the endpoint of {case.machine} never misbehaved")
    times = [
        one.begun
        for one in case.observed.of(case.machine)
        if expected.during == "always" or any(spell.begun <= one.begun <= spell.ended for spell in spells)
    ]
    per = case.pace.length(expected.per)
    for first, last in zip(times, times[expected.requests :], strict=False):
        if last - first < per:
            yield _broken(
                f"{case.machine} sent {expected.requests + 1} requests within {_long(last - first)}, "
                f"{_long(first)} into the play"
            )
            return


def _keeps_asking(expected: KeepsAsking, case: _Case) -> _Findings:
    within = case.pace.length(expected.within)
    for begun, ended in case.lives:
        asked = [one for one in case.observed.of(case.machine) if begun <= one.begun <= ended]
        busy = begun
        silences = []
        for one in asked:
            silences.append((busy, one.begun))
            busy = max(busy, ended if one.ended is None else one.ended)
        silences.append((busy, ended))
        first, last = max(silences, key=lambda silence: silence[1] - silence[0])
        if last - first > within:
            yield _broken(
                f"{case.machine} did not ask for {_long(last - first)}, from {_long(first)} into the play on"
            )


def _keeps_running(case: _Case) -> _Findings:
    for one in case.observed.lives:
        if one.machine == case.machine and one.ended is not None and not one.ours:
            yield _broken(
                f"{case.machine} ended by itself {_long(one.ended)} into the play, with exit code {one.code}"
            )


def _shows(observed: Observed, machine: str) -> bool:
    """Whether a handler lets us see what it does to its machine."""
    return any(one.machine == machine for one in observed.hooks)


def _broken(sentence: str) -> Finding:
    return Finding(ExpectationOutcome.BROKEN, sentence)


def _not_shown(sentence: str) -> Finding:
    return Finding(ExpectationOutcome.NOT_SHOWN, sentence)


def _long(length: timedelta) -> str:
    return f"{length.total_seconds():.1f} s"
