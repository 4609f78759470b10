"""Runs the steps of a scenario, each when its moment has come."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TypeAlias, assert_never

from fairwarning.check.handler import Handler
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import CausedEvent, Hooked, Phase, Spell
from fairwarning.check.scenario import (
    Action,
    ApproveStep,
    CancelStep,
    CauseStep,
    FaultStep,
    KillStep,
    Moment,
    RebootStep,
    Scenario,
    StartStep,
    Timing,
    When,
)
from fairwarning.check.server import Server, StepRefusedError

_Test: TypeAlias = Callable[[ObservationLog, CausedEvent, str], bool]


def _happened(*kinds: str) -> _Test:
    def test(log: ObservationLog, event: CausedEvent, _: str) -> bool:
        return any(entry.event == event.id and entry.kind in kinds for entry in log.happened)

    return test


_gone = _happened("finished", "cancelled")


def _hooked(phase: Phase, is_far_enough: Callable[[Hooked], bool]) -> _Test:
    def test(log: ObservationLog, event: CausedEvent, machine: str) -> bool:
        hooks = [hook for hook in log.hooks.values() if hook.machine == machine]
        if machine not in event.resources:
            return True
        if not hooks:
            # Without observable hooks, the wait ends with the event.
            return _gone(log, event, machine)
        return any(hook.phase is phase and hook.concerns(event.id) and is_far_enough(hook) for hook in hooks)

    return test


def _ended(hook: Hooked) -> bool:
    return hook.ended is not None


#: Whether a moment has come for an event and one handler; "ready" and "healed" are not about events.
MOMENTS: Mapping[Moment, _Test] = {
    "draining": _hooked(Phase.DRAIN, lambda _: True),
    "drained": _hooked(Phase.DRAIN, _ended),
    "approved": _happened("approved"),
    "started": _happened("started"),
    "gone": _gone,
    "recovered": _hooked(Phase.RECOVER, _ended),
}


class ScenarioSteps:
    """Runs the steps of one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        timing: Timing,
        server: Server,
        handlers: Mapping[str, Handler],
        log: ObservationLog,
    ) -> None:
        self._scenario = scenario
        self._timing = timing
        self._server = server
        self._handlers = handlers
        self._log = log
        #: Whether a later step may start the handlers that have ended.
        self.restart_pending = False
        #: How many steps have not run yet.
        self.steps_left = len(scenario.steps)

    async def run(self, first_document_timeout: timedelta) -> None:
        """Wait until every handler has been served a document, then run all steps within the time limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.start_within.total_seconds()):
                await self._log.wait_until(self._all_started)
            async with asyncio.timeout(first_document_timeout.total_seconds()):
                await self._log.wait_until(self._all_served)
            async with asyncio.timeout(self._timing.limit(self._scenario).total_seconds()):
                for step in self._scenario.steps:
                    await self._wait(step)
                    await self._perform(step)
                    self.steps_left -= 1
                await self._wait(self._scenario.ends)
        self._log.finish()

    def _all_started(self) -> bool:
        return {request.machine for request in self._log.asked.values()} >= set(self._scenario.handlers)

    def _all_served(self) -> bool:
        served = {request.machine for request in self._log.asked.values() if request.served}
        return served >= set(self._scenario.handlers)

    async def _wait(self, when: When) -> None:
        latest = None if when.latest is None else self._timing.length(when.latest).total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(latest):
                await self._wait_for_moment(when)
        if pause := self._timing.length(when.at):
            await self._log.pause(pause)

    async def _wait_for_moment(self, when: When) -> None:
        match when.after:
            case None:
                return
            case "ready":
                await self._log.wait_until(self._all_served)
            case "healed":
                ends = (spell.ended for spell in self._log.spells)
                await self._log.pause(max(ends, default=timedelta(0)) - self._log.now())
            case moment:
                await self._log.wait_until(lambda: self._has_come(MOMENTS[moment], when.of))

    def _has_come(self, test: _Test, label: str | None) -> bool:
        events = [event for event in self._log.events if label in (None, event.label)]
        return all(test(self._log, event, machine) for event in events for machine in self._handlers)

    def _events(self, label: str) -> Iterator[CausedEvent]:
        return (event for event in self._log.events if event.label == label)

    async def _perform(self, step: Action) -> None:
        match step:
            case CauseStep():
                label = step.events_label
                events = await self._server.cause(label, step.cause, step.machines, step.notice)
                self._log.add_events(events)
            case CancelStep() | ApproveStep():
                for event in self._events(step.event):
                    # The handler may have been quicker; its actions are judged anyway.
                    with suppress(StepRefusedError):
                        await self._change(step, event)
            case FaultStep():
                await self._set_fault(step)
            case KillStep():
                await self._kill(step.machines)
            case StartStep():
                await self._start(step.machines)
            case RebootStep():
                await self._kill(step.machines)
                await self._log.pause(self._timing.length(step.down))
                await self._start(step.machines)
            case _:
                assert_never(step)

    async def _change(self, step: CancelStep | ApproveStep, event: CausedEvent) -> None:
        if isinstance(step, CancelStep):
            await self._server.cancel(event.id)
        else:
            await self._server.approve(event.id, step.by)

    async def _set_fault(self, step: FaultStep) -> None:
        lasts = self._timing.length(step.lasts)
        for machine in step.machines or self._handlers:
            begun = self._log.now()
            await self._server.set_fault(machine, step.fault, lasts, step.delay)
            self._log.spells.append(Spell(machine=machine, begun=begun, ended=self._log.now() + lasts))

    async def _kill(self, machines: list[str]) -> None:
        self.restart_pending = True
        await asyncio.gather(*(self._handlers[name].kill() for name in machines or self._handlers))

    async def _start(self, machines: list[str]) -> None:
        for name in machines or self._handlers:
            await self._handlers[name].start()
        self.restart_pending = False
