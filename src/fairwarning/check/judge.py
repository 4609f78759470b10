"""Judges a handler: pure functions from the observations of a scenario to verdicts on its expectations.

Every expectation has a function that yields findings for one machine and, where it is about events, one
event. No finding means that the expectation is met. A finding says one of four things. *Broken* means that
the observations prove a violation; its sentence names the machine, the event and the times. *Slow* means that
the handler did not approve in time an event of the platform: the machine loses nothing, and no user waits.
*Not shown* means that the observations prove neither a violation nor its absence: the handler runs no
observable hook, the event was never announced, or the scenario ended too early. *Could not be judged* means
that this machine ran too late (``lateness.py``), and that a finding may be due to that. It replaces every
``timed`` finding: that the handler did something late or not at all, or approved twice or asked too often,
as it may if answers are late. What a handler did too early or against a rule counts on any machine. The four
must not be confused: a handler is unsafe only for what it was seen to do, and safe only for what could be
seen. The verdict on an expectation is its worst finding.

A handler is judged from its first request on: until then it is starting, which may take as long as
``Timing.start_within``. A handler without any request did not start, and nothing else is said about it. A
handler that asked but was never served a document proves nothing, so only what such a run broke counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias, assert_never

from fairwarning.check.lateness import TOO_LATE
from fairwarning.check.observations import Asked, CausedEvent, Life, Observed, Phase, event_name
from fairwarning.check.scenario import (
    AboutEvents,
    Approves,
    ApprovesOnce,
    ApprovesOnlyAfterDrain,
    AsksAtMost,
    DrainsBeforeStart,
    Expected,
    KeepsAsking,
    KeepsRunning,
    NeverApproves,
    NeverDrains,
    Reads,
    Recovers,
    Scenario,
    StaysDrained,
    Timing,
)

#: C-01: the rule about polls; a handler that does not start, or is never served, gets a verdict on it.
STARTS, ASKS, ASKS_RULE = "starts", "asks", "C-01"

#: A handler that has polled so often since it read of an event, and done nothing about it, is done with it.
POLLS_ON = 2

#: How much of an answer is quoted.
MAX_QUOTE = 120

_ZERO = timedelta(0)


class ExpectationOutcome(StrEnum):
    """The outcome of an expectation."""

    MET = "met"
    NOT_SHOWN = "not shown"
    SLOW = "slow"
    NOT_JUDGED = "could not be judged"
    NOT_STARTED = "did not start"
    BROKEN = "broken"


def worst(outcomes: Iterable[ExpectationOutcome]) -> ExpectationOutcome:
    """Return the worst outcome; without any, the expectation is met."""
    return max(outcomes, key=list(ExpectationOutcome).index, default=ExpectationOutcome.MET)


@dataclass(frozen=True, slots=True)
class Finding:
    """An observation that counts against an expectation, or leaves it open.

    ``timed`` says that the observation may be due to a machine that ran late. Such an observation can also be
    the only reason why an expectation is met: that something was not done. ``hidden`` says that the handler
    drains, if it does, in a way that cannot be observed.
    """

    outcome: ExpectationOutcome
    sentence: str
    timed: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one expectation, with the reasons."""

    expect: str
    rule: str
    outcome: ExpectationOutcome
    sentences: tuple[str, ...] = ()
    #: Whether the reason is that drains could not be observed.
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of the handler; it is starting until ``ready``, its first request."""

    begun: timedelta
    ready: timedelta
    ended: timedelta


@dataclass(frozen=True, slots=True)
class _Case:
    """One expectation, applied to one machine."""

    machine: str
    scenario: Scenario
    observed: Observed
    timing: Timing

    @property
    def runs(self) -> Iterator[_Run]:
        """The runs of the handler, in order."""
        times = [request.begun for request in self.observed.requests(self.machine)]
        for life in self.observed.lives:
            if life.machine == self.machine:
                ended = self.observed.ended if life.ended is None else life.ended
                latest = min(life.begun + self.timing.start_within, ended)
                ready = min((time for time in times if life.begun <= time), default=latest)
                yield _Run(life.begun, min(ready, latest), ended)

    def ready_since(self, moment: timedelta) -> timedelta:
        """Return the moment, or the first request after it if the handler was starting then."""
        return max((moment, *(run.ready for run in self.runs if run.begun <= moment < run.ended)))


_Findings: TypeAlias = Iterator[Finding]


def judge(scenario: Scenario, observed: Observed, timing: Timing) -> tuple[Verdict, ...]:
    """Return the verdicts; if a handler did not start or was never served, that and what is broken only."""
    started = [name for name in scenario.handlers if any(observed.requests(name))]
    verdicts = tuple(_verdict(expected, started, scenario, observed, timing) for expected in scenario.expect)
    idle = [_no_request(name, observed) for name in scenario.handlers if name not in started]
    unserved = [
        _never_served(name, observed)
        for name in started
        if not any(request.served for request in observed.requests(name))
    ]
    if not idle and not unserved:
        return verdicts
    return (
        *(
            _worst_of(findings, expect, ASKS_RULE, observed)
            for expect, findings in ((STARTS, idle), (ASKS, unserved))
            if findings
        ),
        *(verdict for verdict in verdicts if verdict.outcome is ExpectationOutcome.BROKEN),
    )


def _no_request(machine: str, observed: Observed) -> Finding:
    for life in observed.lives:
        if life.machine == machine and life.code is not None and not life.ended_by_step:
            sentence = f"{machine} ended with exit code {life.code} before its first request"
            return Finding(ExpectationOutcome.NOT_STARTED, sentence)
    begun = min((life.begun for life in observed.lives if life.machine == machine), default=_ZERO)
    sentence = f"{machine} sent no request in {_long(observed.ended - begun)}"
    return Finding(ExpectationOutcome.NOT_STARTED, sentence, timed=True)


def _never_served(machine: str, observed: Observed) -> Finding:
    answered = any(request.final for request in observed.requests(machine))
    return _broken("; ".join(_why_never_served(machine, observed)), timed=not answered)


def _why_never_served(machine: str, observed: Observed) -> Iterator[str]:
    requests = list(observed.requests(machine))
    yield f"{machine} was not served a document in {_long(observed.ended - requests[0].begun)}"
    yield f"requests: {len(requests)}"
    # A handler that polls too often ends up with 429; the final answer before that explains more.
    for last in ([request for request in requests if request.final] or requests)[-1:]:
        yield "the last request was not answered" if last.status is None else f"the answer was {_quote(last)}"
    for life in observed.lives:
        if life.machine == machine and life.code is not None and not life.ended_by_step:
            yield f"it ended with exit code {life.code}"
            return


def _quote(request: Asked) -> str:
    text = " ".join(request.answer.decode(errors="replace").split())[:MAX_QUOTE]
    return f"{request.status}: {text}" if text else f"{request.status}"


def _verdict(
    expected: Expected, started: list[str], scenario: Scenario, observed: Observed, timing: Timing
) -> Verdict:
    cases = [_Case(name, scenario, observed, timing) for name in started if expected.machine in (None, name)]
    findings = [finding for case in cases for finding in _find(expected, case)]
    if observed.steps_left and all(finding.outcome is ExpectationOutcome.MET for finding in findings):
        findings = [_cut_short(scenario, observed)]
    return _worst_of(findings, str(type(expected).__struct_config__.tag), expected.rule, observed)


def _worst_of(findings: list[Finding], expect: str, rule: str, observed: Observed) -> Verdict:
    if observed.lateness > TOO_LATE:
        findings = [_unless_late(finding, observed.lateness) for finding in findings]
    outcome = worst(finding.outcome for finding in findings)
    if outcome is ExpectationOutcome.MET:
        return Verdict(expect=expect, rule=rule, outcome=outcome)
    reasons = [finding for finding in findings if finding.outcome is outcome]
    return Verdict(
        expect=expect,
        rule=rule,
        outcome=outcome,
        sentences=tuple(dict.fromkeys(finding.sentence for finding in reasons)),
        hidden=any(finding.hidden for finding in reasons),
    )


def _unless_late(finding: Finding, lateness: timedelta) -> Finding:
    if not finding.timed:
        return finding
    sentence = f"{finding.sentence}, but this machine ran {_long(lateness)} late"
    return Finding(ExpectationOutcome.NOT_JUDGED, sentence)


def _cut_short(scenario: Scenario, observed: Observed) -> Finding:
    steps = f"{observed.steps_left} of its {len(scenario.steps)} steps"
    sentence = f"the scenario ended after {_long(observed.ended)} and did not run {steps}"
    return _not_shown(sentence, timed=True)


def _find(expected: Expected, case: _Case) -> _Findings:
    match expected:
        case AsksAtMost():
            yield from _asks_at_most(expected, case)
        case KeepsAsking():
            yield from _keeps_asking(expected, case)
        case KeepsRunning():
            yield from _keeps_running(case)
        case _:
            events = [event for event in case.observed.events if expected.event in (None, event.label)]
            if not events:
                name = "an event" if expected.event is None else event_name(expected.event)
                yield _not_shown(f"{name} was never announced")
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
        case DrainsBeforeStart():
            yield from _drains_before_start(case, event)
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
    since = observed.announced(event.id) or _ZERO
    if expected.since == "healed":
        since = max((since, *(spell.ended for spell in observed.spells)))
    accepted = next((request for request in observed.approvals(me, event.id) if request.accepted), None)
    within = None if expected.within is None else case.timing.length(expected.within)
    started = observed.first(event.id, "started")
    if _approved_by_another(accepted, observed, event):
        return
    if started is not None and case.ready_since(started) > started:
        yield _not_shown(f"{event.name} started while {me} was starting", timed=True)
    elif accepted is None and not event.user_waits and not _acted(case, event):
        yield _not_shown(f"{me} neither drained for {event.name} nor approved it", timed=True)
    elif accepted is None:
        until, death = observed.ended if started is None else started, _death(case)
        reason = death or f" in {_long(max(until - since, _ZERO))}"
        yield _late(event, f"{me} did not approve {event.name}{reason}", timed=not death)
    elif within is not None and accepted.begun - since > within:
        took = _long(accepted.begun - since)
        yield _late(event, f"{me} approved {event.name} only after {took}, not within {_long(within)}")
    elif within is None and started is not None and accepted.begun > started:
        after = _long(accepted.begun - started)
        yield _late(event, f"{me} approved {event.name} {after} after it had started by itself")


def _approved_by_another(accepted: Asked | None, observed: Observed, event: CausedEvent) -> bool:
    """Whether another approval came first: then the event is not late, and that approval is judged."""
    approved = observed.first(event.id, "approved")
    return approved is not None and (accepted is None or approved < accepted.begun)


def _never_approves(case: _Case, event: CausedEvent) -> _Findings:
    approvals = case.observed.approvals(case.machine, event.id)
    if approvals:
        since = approvals[0].begun - (case.observed.announced(event.id) or _ZERO)
        yield _broken(f"{case.machine} approved {event.full_name}, {_long(since)} after it was announced")
    else:
        yield _not_done(case, event, f"{case.machine} did not approve {event.full_name}")


def _approves_once(case: _Case, event: CausedEvent) -> _Findings:
    final = [request for request in case.observed.approvals(case.machine, event.id) if request.final]
    if len(final) > 1:
        over = _long(final[-1].begun - final[0].begun)
        yield _broken(
            f"{case.machine} approved {event.name} {len(final)} times within {over}; "
            f"the first answer was {final[0].status}",
            timed=True,
        )


def _approves_only_after_drain(case: _Case, event: CausedEvent) -> _Findings:
    approvals = case.observed.approvals(case.machine, event.id)
    accepted = next((request for request in approvals if request.accepted), None)
    if accepted is not None:
        for machine in case.scenario.handlers:
            if machine in event.resources:
                yield from _drained_before(accepted, machine, case, event)
    elif case.machine in event.resources and _acted(case, event):
        yield _not_done(case, event, f"{case.machine} did not approve {event.name}")
    elif case.machine in event.resources:
        yield _not_shown(f"{case.machine} neither drained for {event.name} nor approved it", timed=True)


def _drained_before(approval: Asked, machine: str, case: _Case, event: CausedEvent) -> _Findings:
    me, drains = case.machine, case.observed.hooked(machine, Phase.DRAIN, event.id)
    if any(drain.ok and drain.ended is not None and drain.ended <= approval.begun for drain in drains):
        return
    subject = "it" if machine == me else machine
    later = [drain.ended for drain in drains if drain.ok and drain.ended is not None]
    if later:
        early = _long(min(later) - approval.begun)
        yield _broken(f"{me} approved {event.name} {early} before the drain of {machine} ended")
    elif any(drain.ended is not None for drain in drains):
        yield _broken(f"{me} approved {event.name} although the drain of {machine} failed")
    elif drains:
        yield _broken(f"{me} approved {event.name} while the drain of {machine} was running")
    elif _is_observable(case.observed, machine):
        yield _broken(f"{me} approved {event.name} before {subject} was drained at all")
    else:
        yield _hidden(f"{me} approved {event.name}; whether {subject} was drained could not be observed")


def _drains_before_start(case: _Case, event: CausedEvent) -> _Findings:
    me, started = case.machine, case.observed.first(event.id, "started")
    if me not in event.resources:
        return
    drains = case.observed.hooked(me, Phase.DRAIN, event.id)
    if not drains and _is_observable(case.observed, me):
        death = _death(case)
        yield _broken(f"{me} was not drained for {event.name}{death}", timed=not death)
    elif not drains:
        yield _hidden(f"{me} was not seen to drain for {event.name}")
    elif started is not None and drains[0].begun > case.ready_since(started):
        late = _long(drains[0].begun - started)
        yield _broken(f"{me} began its drain for {event.name} {late} after it had started", timed=True)


def _never_drains(case: _Case, event: CausedEvent) -> _Findings:
    if case.observed.hooked(case.machine, Phase.DRAIN, event.id):
        yield _broken(f"{case.machine} was drained for {event.full_name}")
    elif not _is_observable(case.observed, case.machine):
        yield _hidden(f"whether {case.machine} was drained for {event.name} could not be observed")
    else:
        yield _not_done(case, event, f"{case.machine} was not drained for {event.full_name}")


def _reads(expected: Reads, case: _Case, event: CausedEvent) -> _Findings:
    within, read = case.timing.length(expected.within), case.observed.read(case.machine, event.id)
    since = case.ready_since(case.observed.announced(event.id) or _ZERO)
    if read is None:
        death = _death(case)
        yield _broken(f"{case.machine} never read a document with {event.name}{death}", timed=not death)
    elif read - since > within:
        sentence = f"{case.machine} first read of {event.name} after {_long(read - since)}"
        yield _broken(f"{sentence}, not within {_long(within)}", timed=True)


def _recovers(expected: Recovers, case: _Case, event: CausedEvent) -> _Findings:
    observed, me, within = case.observed, case.machine, case.timing.length(expected.within)
    if not _is_observable(observed, me):
        yield _hidden(f"whether {me} was drained for {event.name} could not be observed")
        return
    gone = observed.gone(event.id)
    if not observed.hooked(me, Phase.DRAIN, event.id):
        return
    if gone is None:
        yield _not_shown(f"{event.name} was not over when the scenario ended", timed=True)
        return
    since = _free_since(case, gone)
    recovered = [hook.begun for hook in observed.hooked(me, Phase.RECOVER, event.id) if hook.begun >= gone]
    if recovered and recovered[0] - since > within:
        took = _long(recovered[0] - since)
        yield _broken(f"{me} recovered from {event.name} only {took} after it was gone", timed=True)
    if not recovered:
        waited, death = observed.ended - since, _death(case)
        sentence = f"{me} had not recovered {_long(waited)} after {event.name} was gone{death}"
        if waited >= within:
            yield _broken(sentence, timed=not death)
        else:
            yield _not_shown(f"{sentence}, when the scenario ended", timed=not death)


def _free_since(case: _Case, gone: timedelta) -> timedelta:
    """Return when a machine was free to recover: no other event, and no reboot, held it back."""
    observed = case.observed
    for other in observed.events:
        came, went = observed.announced(other.id), observed.gone(other.id)
        if case.machine in other.resources and came is not None and went is not None and came < gone < went:
            return _free_since(case, went)
    return max((gone, *(run.ready for run in case.runs if run.ended > gone)))


def _stays_drained(case: _Case, event: CausedEvent) -> _Findings:
    observed, me = case.observed, case.machine
    drains = observed.hooked(me, Phase.DRAIN, event.id)
    if not drains:
        if me in event.resources and not _is_observable(observed, me):
            yield _hidden(f"whether {me} was drained for {event.name} could not be observed")
        return
    gone = observed.gone(event.id)
    until = observed.ended if gone is None else gone
    for hook in observed.hooks:
        if hook.machine == me and hook.phase is Phase.RECOVER and drains[0].begun <= hook.begun < until:
            yield _broken(f"{me} recovered {_long(until - hook.begun)} before {event.name} was gone")
            return


def _asks_at_most(expected: AsksAtMost, case: _Case) -> _Findings:
    spells = [spell for spell in case.observed.spells if spell.machine == case.machine]
    if expected.during == "fault" and not spells:
        yield _not_shown(f"the endpoint of {case.machine} never had a fault")
    times = [
        request.begun
        for request in case.observed.requests(case.machine)
        if expected.during == "always" or any(spell.begun <= request.begun <= spell.ended for spell in spells)
    ]
    per = case.timing.length(expected.per)
    for first, last in zip(times, times[expected.requests :], strict=False):
        if last - first < per:
            yield _broken(
                f"{case.machine} sent {expected.requests + 1} requests within {_long(last - first)}, "
                f"{_long(first)} into the scenario",
                timed=True,
            )
            return


def _keeps_asking(expected: KeepsAsking, case: _Case) -> _Findings:
    within = case.timing.length(expected.within)
    for run in case.runs:
        busy_until = run.ready
        silences = []
        for request in case.observed.requests(case.machine):
            if run.ready <= request.begun <= run.ended:
                silences.append((busy_until, request.begun))
                busy_until = max(busy_until, run.ended if request.ended is None else request.ended)
        silences.append((busy_until, run.ended))
        first, last = max(silences, key=lambda silence: silence[1] - silence[0])
        if last - first > within:
            yield _broken(
                f"{case.machine} sent no request for {_long(last - first)}, "
                f"from {_long(first)} into the scenario",
                timed=True,
            )


def _keeps_running(case: _Case) -> _Findings:
    for life in case.observed.lives:
        if life.machine == case.machine and life.ended is not None and not life.ended_by_step:
            if life.code == 0 and _was_drained_for_good(case, life.ended):
                continue
            when = f"{_long(life.ended)} into the scenario"
            yield _broken(f"{case.machine} {_died(life)} {when}, with exit code {life.code}")


def _was_drained_for_good(case: _Case, moment: timedelta) -> bool:
    """Whether the machine had been drained for an event that removes it, so the handler has no more to do."""
    return any(
        drain.ok and drain.ended is not None and drain.ended <= moment
        for event in case.observed.events
        if event.removes_machines
        for drain in case.observed.hooked(case.machine, Phase.DRAIN, event.id)
    )


def _death(case: _Case) -> str:
    """Return the end of a sentence about a handler that has ended by itself; empty if it has not."""
    for life in case.observed.lives:
        if life.machine == case.machine and life.ended is not None and not life.ended_by_step:
            return f": it had {_died(life)}, with exit code {life.code}"
    return ""


def _died(life: Life) -> str:
    return "ended by itself" if life.code == 0 else "died"


def _acted(case: _Case, event: CausedEvent) -> bool:
    """Whether the handler was seen to drain its machine for an event, or to approve it."""
    observed, me = case.observed, case.machine
    return bool(observed.hooked(me, Phase.DRAIN, event.id) or observed.approvals(me, event.id))


def _is_observable(observed: Observed, machine: str) -> bool:
    """Whether a handler has run an observable hook on its machine."""
    return any(hook.machine == machine for hook in observed.hooks)


def _late(event: CausedEvent, sentence: str, *, timed: bool = True) -> Finding:
    """C-06: an approval that is late or missing is unsafe only if a user waits for it."""
    outcome = ExpectationOutcome.BROKEN if event.user_waits else ExpectationOutcome.SLOW
    return Finding(outcome, sentence, timed)


def _broken(sentence: str, *, timed: bool = False) -> Finding:
    return Finding(ExpectationOutcome.BROKEN, sentence, timed)


def _not_shown(sentence: str, *, timed: bool = False) -> Finding:
    return Finding(ExpectationOutcome.NOT_SHOWN, sentence, timed)


def _hidden(sentence: str) -> Finding:
    return Finding(ExpectationOutcome.NOT_SHOWN, sentence, hidden=True)


def _not_done(case: _Case, event: CausedEvent, sentence: str) -> Finding:
    """The expectation is met by what the handler did not do.

    A machine that ran late explains that, too, unless the handler had read of the event and polled on.
    """
    read = case.observed.read(case.machine, event.id)
    later = [ask for ask in case.observed.requests(case.machine) if read is not None and ask.begun > read]
    return Finding(ExpectationOutcome.MET, sentence, timed=len(later) < POLLS_ON)


def _long(length: timedelta) -> str:
    return f"{length.total_seconds():.1f} s"
