"""Takes the steps of a scenario, each when its moment has come."""

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
    When,
)
from fairwarning.check.server import Server, StepRefusedError
from fairwarning.check.timing import Timing

_Test: TypeAlias = Callable[[ObservationLog, CausedEvent, str], bool]


def _happened(*kinds: str) -> _Test:
    def test(notebook: ObservationLog, event: CausedEvent, _: str) -> bool:
        return any(one.event == event.id and one.kind in kinds for one in notebook.happened)

    return test


_gone = _happened("finished", "cancelled")


def _hooked(phase: Phase, far_enough: Callable[[Hooked], bool]) -> _Test:
    def test(notebook: ObservationLog, event: CausedEvent, machine: str) -> bool:
        mine = [one for one in notebook.hooks.values() if one.machine == machine]
        if machine not in event.resources:
            return True
        if not mine:
            # Who shows nothing of the kind is not waited for any longer than the event lasts.
            return _gone(notebook, event, machine)
        return any(one.phase is phase and one.concerns(event.id) and far_enough(one) for one in mine)

    return test


def _ended(hook: Hooked) -> bool:
    return hook.ended is not None


#: When a moment has come for an event, as far as one handler is concerned; the rest is not about events.
MOMENTS: Mapping[Moment, _Test] = {
    "draining": _hooked(Phase.DRAIN, lambda _: True),
    "drained": _hooked(Phase.DRAIN, _ended),
    "approved": _happened("approved"),
    "started": _happened("started"),
    "gone": _gone,
    "recovered": _hooked(Phase.RECOVER, _ended),
}


class ScenarioSteps:
    """Takes the steps of one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        pace: Timing,
        server: Server,
        handlers: Mapping[str, Handler],
        notebook: ObservationLog,
    ) -> None:
        self._scenario = scenario
        self._pace = pace
        self._server = server
        self._handlers = handlers
        self._notebook = notebook
        #: Whether handlers that do not run now are about to be started again.
        self.restarts = False
        #: How many steps are still to be taken.
        self.untaken = len(scenario.steps)

    async def play(self, to_begin: timedelta) -> None:
        """Wait until every handler has been served, then take all steps, within the scenario's limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(to_begin.total_seconds()):
                await self._notebook.until(self._ready)
            async with asyncio.timeout(self._pace.limit(self._scenario).total_seconds()):
                for step in self._scenario.steps:
                    await self._wait(step)
                    await self._take(step)
                    self.untaken -= 1
                await self._wait(self._scenario.ends)
        self._notebook.rest()

    def _ready(self) -> bool:
        served = {one.machine for one in self._notebook.asked.values() if one.served}
        return served >= set(self._scenario.handlers)

    async def _wait(self, when: When) -> None:
        latest = None if when.latest is None else self._pace.length(when.latest).total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(latest):
                await self._moment(when)
        if pause := self._pace.length(when.at):
            await self._notebook.pause(pause)

    async def _moment(self, when: When) -> None:
        match when.after:
            case None:
                return
            case "ready":
                await self._notebook.until(self._ready)
            case "healed":
                ends = (spell.ended for spell in self._notebook.spells)
                await self._notebook.pause(max(ends, default=timedelta(0)) - self._notebook.now())
            case moment:
                await self._notebook.until(lambda: self._has_come(MOMENTS[moment], when.of))

    def _has_come(self, test: _Test, label: str | None) -> bool:
        events = [one for one in self._notebook.events if label in (None, one.label)]
        return all(test(self._notebook, one, machine) for one in events for machine in self._handlers)

    def _events(self, label: str) -> Iterator[CausedEvent]:
        return (one for one in self._notebook.events if one.label == label)

    async def _take(self, step: Action) -> None:
        match step:
            case CauseStep():
                made = await self._server.cause(step.called, step.cause, step.machines, step.notice)
                self._notebook.announce(made)
            case CancelStep() | ApproveStep():
                for event in self._events(step.event):
                    # The handler may have been quicker; what it did then is judged all the same.
                    with suppress(StepRefusedError):
                        await self._change(step, event)
            case FaultStep():
                await self._ail(step)
            case KillStep():
                await self._kill(step.machines)
            case StartStep():
                await self._start(step.machines)
            case RebootStep():
                await self._kill(step.machines)
                await self._notebook.pause(self._pace.length(step.down))
                await self._start(step.machines)
            case _:
                assert_never(step)

    async def _change(self, step: CancelStep | ApproveStep, event: CausedEvent) -> None:
        if isinstance(step, CancelStep):
            await self._server.cancel(event.id)
        else:
            await self._server.approve(event.id, step.by)

    async def _ail(self, step: FaultStep) -> None:
        lasts = self._pace.length(step.lasts)
        for machine in step.machines or self._handlers:
            begun = self._notebook.now()
            await self._server.ail(machine, step.fault, lasts, step.delay)
            self._notebook.spells.append(
                Spell(machine=machine, begun=begun, ended=self._notebook.now() + lasts)
            )

    async def _kill(self, machines: list[str]) -> None:
        self.restarts = True
        await asyncio.gather(*(self._handlers[name].kill() for name in machines or self._handlers))

    async def _start(self, machines: list[str]) -> None:
        for name in machines or self._handlers:
            await self._handlers[name].start()
        self.restarts = False
