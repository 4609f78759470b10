"""Plays one scenario to a handler and returns what was observed."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec

from fairwarning.check.background import beside
from fairwarning.check.handler import Handler, HandlerEnvironment
from fairwarning.check.hook_server import Behaviour, HookServer
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Observed, Phase
from fairwarning.check.recorder import EndpointRecorder
from fairwarning.check.scenario import Scenario
from fairwarning.check.server import CannotPlayError, Server, serving
from fairwarning.check.steps import ScenarioSteps
from fairwarning.check.timing import Timing

#: How long a handler may take until it has been told for the first time what is scheduled.
TO_BEGIN = timedelta(seconds=30)

#: How often marker files are looked for.
LOOK = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What is to be checked: the handler's command line, its environment, and the pace."""

    command: Sequence[str]
    environment: Mapping[str, str]
    pace: Timing


async def run_scenario(scenario: Scenario, run: CheckRequest) -> Observed:
    """Play a scenario from its beginning to its end.

    Raises:
        CannotPlay: the server or the sandbox failed, not the handler.
    """
    try:
        return await _play(scenario, run)
    except (OSError, ValueError, msgspec.MsgspecError) as problem:
        raise CannotPlayError(f"the play broke off: {problem}") from problem


async def _play(scenario: Scenario, run: CheckRequest) -> Observed:
    notebook = ObservationLog(asyncio.get_running_loop().time())
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(scenario, run.pace, notebook, run.environment))
        handlers = await stack.enter_async_context(_handlers(scenario, run, server, notebook))
        player = ScenarioSteps(scenario, run.pace, server, handlers, notebook)
        to_begin = TO_BEGIN + run.pace.length(scenario.fleet.first_call_delay)
        async with beside(player.play(to_begin)) as playing:
            await _until_over(playing, server, lambda: player.restarts or _any_runs(handlers))
        for one in handlers.values():
            if one.problem is not None:
                raise CannotPlayError(one.problem)
        return notebook.observed({name: one.printed.text for name, one in handlers.items()}, player.untaken)


async def _until_over(playing: "asyncio.Task[None]", server: Server, lives: Callable[[], bool]) -> None:
    """Return once the play is at its end, or has lost all its handlers.

    Raises:
        CannotPlay: a step failed, or the server has ended.
    """
    done = set[asyncio.Task[None]]()
    while playing not in done and lives():
        done, _ = await asyncio.wait(
            (playing, server.history),
            timeout=LOOK.total_seconds(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in done:
            task.result()


def _any_runs(handlers: Mapping[str, Handler]) -> bool:
    return any(one.running for one in handlers.values())


@asynccontextmanager
async def _handlers(
    scenario: Scenario, run: CheckRequest, server: Server, notebook: ObservationLog
) -> AsyncIterator[dict[str, Handler]]:
    """Give a running handler on each machine that the scenario names, watched from all sides."""
    desk = HookServer(notebook, partial(_behaviour, scenario, run.pace))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairwarning-check-")))
        call = await stack.enter_async_context(desk.open())
        handlers: dict[str, Handler] = {}
        for number, name in enumerate(scenario.handlers):
            place = HandlerEnvironment(machine=name, folder=folder / str(number), call=call)
            place.furnish()
            survey = partial(desk.survey, name, place.work)
            recorder = EndpointRecorder(name, server.endpoint(name), notebook, survey, scenario.api_version)
            port = await stack.enter_async_context(recorder.listening())
            await stack.enter_async_context(beside(_repeat(survey)))
            complaints = os.memfd_create("complaints")
            stack.callback(os.close, complaints)
            handlers[name] = Handler(
                machine=name,
                command=place.filled(run.command),
                environment={**run.environment, **place.variables},
                port=port,
                notebook=notebook,
                complaints=complaints,
            )
            stack.push_async_callback(handlers[name].stop)
            await handlers[name].start()
        yield handlers


def _behaviour(scenario: Scenario, pace: Timing, machine: str, phase: Phase) -> Behaviour:
    hook = scenario.drain if phase is Phase.DRAIN else scenario.recover
    return Behaviour(pace.length(hook.takes_on.get(machine, hook.takes)), hook.fails)


async def _repeat(survey: Callable[[], None]) -> None:
    while True:
        survey()
        await asyncio.sleep(LOOK.total_seconds())
