"""Runs one scenario against a handler and returns the observations."""

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

from fairwarning.check.background import in_background
from fairwarning.check.handler import Handler, HandlerEnvironment
from fairwarning.check.hook_server import Behaviour, HookServer
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Observed, Phase
from fairwarning.check.recorder import EndpointRecorder
from fairwarning.check.scenario import Scenario, Timing
from fairwarning.check.server import CannotPlayError, Server, serving
from fairwarning.check.steps import ScenarioSteps

#: How long a handler may take from its first request until it has been served a document.
FIRST_DOCUMENT_TIMEOUT = timedelta(seconds=30)

#: The variable that containers set to their host name, and that shells keep.
_HOST_NAME = "HOSTNAME"

#: How often marker files are looked for.
SCAN_INTERVAL = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to check: the handler's command line, its environment, and the timing."""

    command: Sequence[str]
    environment: Mapping[str, str]
    timing: Timing


async def run_scenario(scenario: Scenario, request: CheckRequest) -> Observed:
    """Run a scenario from its beginning to its end.

    Raises:
        CannotPlayError: the server or the sandbox failed, not the handler.
    """
    try:
        return await _run(scenario, request)
    except (OSError, ValueError, msgspec.MsgspecError) as problem:
        raise CannotPlayError(f"the scenario was aborted: {problem}") from problem


async def _run(scenario: Scenario, request: CheckRequest) -> Observed:
    log = ObservationLog(asyncio.get_running_loop().time())
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(scenario, request.timing, log, request.environment))
        handlers = await stack.enter_async_context(_handlers(scenario, request, server, log))
        steps = ScenarioSteps(scenario, request.timing, server, handlers, log)
        timeout = FIRST_DOCUMENT_TIMEOUT + request.timing.length(scenario.fleet.first_call_delay)
        async with in_background(steps.run(timeout)) as task:
            await _wait_until_over(task, server, lambda: steps.restart_pending or _any_running(handlers))
        for handler in handlers.values():
            if handler.problem is not None:
                raise CannotPlayError(handler.problem)
        output = {name: handler.output.text for name, handler in handlers.items()}
        return log.observed(output, steps.steps_left)


async def _wait_until_over(
    steps: "asyncio.Task[None]", server: Server, handlers_alive: Callable[[], bool]
) -> None:
    """Wait until all steps have run, or all handlers have ended.

    Raises:
        CannotPlayError: a step failed, or the server has ended.
    """
    done = set[asyncio.Task[None]]()
    while steps not in done and handlers_alive():
        done, _ = await asyncio.wait(
            (steps, server.history),
            timeout=SCAN_INTERVAL.total_seconds(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in done:
            task.result()


def _any_running(handlers: Mapping[str, Handler]) -> bool:
    return any(handler.running for handler in handlers.values())


@asynccontextmanager
async def _handlers(
    scenario: Scenario, request: CheckRequest, server: Server, log: ObservationLog
) -> AsyncIterator[dict[str, Handler]]:
    """Run a handler on each machine that the scenario names, with its proxy and its hooks."""
    hook_server = HookServer(log, partial(_behaviour, scenario, request.timing))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairwarning-check-")))
        hook_url = await stack.enter_async_context(hook_server.open())
        handlers: dict[str, Handler] = {}
        for number, name in enumerate(scenario.handlers):
            environment = HandlerEnvironment(machine=name, folder=folder / str(number), hook_url=hook_url)
            environment.create()
            scan_markers = partial(hook_server.scan_markers, name, environment.work)
            recorder = EndpointRecorder(name, server.endpoint(name), log, scan_markers, scenario.api_version)
            port = await stack.enter_async_context(recorder.listening())
            await stack.enter_async_context(in_background(_repeat(scan_markers)))
            error_fd = os.memfd_create("sandbox-errors")
            stack.callback(os.close, error_fd)
            host_name = await server.computer_name(name)
            handlers[name] = Handler(
                machine=name,
                host_name=host_name,
                command=environment.expand(request.command),
                environment=_variables(request.environment, environment, host_name),
                port=port,
                log=log,
                error_fd=error_fd,
            )
            stack.push_async_callback(handlers[name].stop)
            await handlers[name].start()
        yield handlers


def _variables(given: Mapping[str, str], own: HandlerEnvironment, host_name: str) -> Mapping[str, str]:
    """Return the variables of a handler; a container's variable for the host name must not show through."""
    named = {_HOST_NAME: host_name} if _HOST_NAME in given else {}
    return {**given, **named, **own.variables}


def _behaviour(scenario: Scenario, timing: Timing, machine: str, phase: Phase) -> Behaviour:
    hook = scenario.drain if phase is Phase.DRAIN else scenario.recover
    return Behaviour(timing.length(hook.takes_on.get(machine, hook.takes)), hook.fails)


async def _repeat(scan_markers: Callable[[], None]) -> None:
    while True:
        scan_markers()
        await asyncio.sleep(SCAN_INTERVAL.total_seconds())
