"""The server of one scenario: starts it, follows its history, and calls its operator API."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address
from urllib.parse import urlsplit

import httpx2
import msgspec

from fairwarning.check.background import OutputTail, in_background
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import CausedEvent, Happened
from fairwarning.check.scenario import FleetSpec, Scenario, Timing
from fairwarning.core.document.render import EVENTS_PATH, Json, render_start_request
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId
from fairwarning.formats import durations
from fairwarning.sandbox.addresses import Endpoint

#: The time limits for starting and stopping a server.
START_TIMEOUT, STOP_TIMEOUT = timedelta(seconds=60), timedelta(seconds=10)


class CannotPlayError(FairWarningError):
    """The scenario could not be run; this says nothing about the handler."""


class StepRefusedError(CannotPlayError):
    """The server refuses what a step asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    operator: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _HistoryLine:
    kind: str
    event: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    computer_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    id: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Events:
    events: tuple[_Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    detail: str = ""


class Server:
    """A running server; ``history`` is the task that follows its history and fails when the server ends."""

    def __init__(self, ready: _Ready, http: httpx2.AsyncClient, history: "asyncio.Task[None]") -> None:
        self._ready = ready
        self._http = http
        self.history = history

    def endpoint(self, machine: str) -> Endpoint:
        """Return the address of a machine's metadata endpoint.

        Raises:
            CannotPlayError: there is no such machine.
        """
        if machine not in self._ready.metadata:
            known = ", ".join(self._ready.metadata)
            raise CannotPlayError(f"the fleet has no machine {machine}; it has {known}")
        url = urlsplit(self._ready.metadata[machine])
        return Endpoint(IPv4Address(url.hostname or ""), url.port or 80)

    async def computer_name(self, machine: str) -> str:
        """Return the host name of a machine, which differs from its name in a scale set (S-06)."""
        answer = await self._call("GET", f"/machines/{machine}")
        return msgspec.json.decode(answer, type=_Machine).computer_name

    async def cause(
        self, label: str, cause: str, machines: list[str], notice: str | None
    ) -> tuple[CausedEvent, ...]:
        """Trigger an event on machines and return the events that follow."""
        body: dict[str, Json] = {"cause": cause, "machines": [*machines]}
        answer = await self._call("POST", "/events", body if notice is None else {**body, "notice": notice})
        events = msgspec.json.decode(answer, type=_Events).events
        return tuple(
            CausedEvent(id=EventId(event.id.upper()), label=label, cause=cause, resources=event.resources)
            for event in events
        )

    async def cancel(self, event: EventId) -> None:
        """Cancel an event."""
        await self._call("POST", f"/events/{event}/cancel", {})

    async def approve(self, event: EventId, by: str | None) -> None:
        """Approve an event, as a machine or as the operator."""
        if by is None:
            await self._call("POST", f"/events/{event}/approve", {})
            return
        host, port = self.endpoint(by).address
        url = f"http://{host}:{port}{EVENTS_PATH}?api-version={NEWEST}"
        body = render_start_request(event)
        with suppress(httpx2.TransportError):  # the event may have started, and stopped the machine
            await self._http.post(url, content=body, headers={"Metadata": "true"})

    async def set_fault(self, machine: str, fault: str, lasts: timedelta, delay: str) -> None:
        """Set a fault on a machine's endpoint."""
        body: dict[str, Json] = {"fault": fault, "lasts": durations.for_people(lasts), "delay": delay}
        await self._call("PUT", f"/machines/{machine}/fault", body)

    async def _call(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> bytes:
        try:
            answer = await self._http.request(method, f"{self._ready.operator}/fleet/v1{path}", json=body)
        except httpx2.TransportError as problem:
            raise CannotPlayError(f"the server does not answer: {problem}") from problem
        if answer.is_error:
            raise StepRefusedError(msgspec.json.decode(answer.content, type=_Problem).detail)
        return answer.content


@asynccontextmanager
async def serving(
    scenario: Scenario, timing: Timing, log: ObservationLog, environment: Mapping[str, str]
) -> AsyncIterator[Server]:
    """Run a server with a scenario's fleet for the duration of the block; its history goes into the log.

    Raises:
        CannotPlayError: the server does not start.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairwarning.check.die_with_parent"),
        *(sys.executable, "-m", "fairwarning", "up", "--json", "--no-arm", "--port-base", "0"),
        *("--log-level", "warning"),
        *("--speed", f"{timing.speed_of(scenario):g}", *_options(scenario.fleet, timing)),
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stderr = OutputTail()
    try:
        async with in_background(stderr.follow(process.stderr)):
            ready = await _wait_until_ready(process, stderr)
            async with (
                httpx2.AsyncClient(trust_env=False, timeout=30) as http,
                in_background(_follow_history(process, stderr, log)) as history,
            ):
                yield Server(ready, http, history)
    finally:
        await _stop(process)


def _options(fleet: FleetSpec, timing: Timing) -> Iterator[str]:
    for option, sets in (("--scale-set", fleet.scale_sets), ("--availability-set", fleet.availability_sets)):
        for name, count in sets.items():
            yield from (option, f"{name}={count}")
    for option, machines in (("--vm", fleet.vms), ("--spot-vm", fleet.spot_vms)):
        for name in machines:
            yield from (option, name)
    if fleet.terminate_notice is not None:
        yield from ("--terminate-notice", fleet.terminate_notice)
    if fleet.first_call != "none":
        yield from ("--first-call", fleet.first_call)
        yield from ("--first-call-delay", durations.for_people(timing.length(fleet.first_call_delay)))
    if fleet.preview_version:
        yield "--preview-version"
    yield from ("--timings", fleet.timings)


async def _wait_until_ready(process: asyncio.subprocess.Process, stderr: OutputTail) -> _Ready:
    try:
        async with asyncio.timeout(START_TIMEOUT.total_seconds()):
            line = await _read_line(process)
            if not line:
                raise CannotPlayError(f"the server did not start: {await stderr.final_text()}")
    except TimeoutError:
        raise CannotPlayError(
            f"the server did not start within {durations.for_people(START_TIMEOUT)}"
        ) from None
    return msgspec.json.decode(line, type=_Ready)


async def _follow_history(
    process: asyncio.subprocess.Process, stderr: OutputTail, log: ObservationLog
) -> None:
    """Add the server's history to the log, line by line.

    Raises:
        CannotPlayError: the server has ended.
    """
    while text := await _read_line(process):
        line = msgspec.json.decode(text, type=_HistoryLine)
        if line.event is not None:
            log.add_history(Happened(kind=line.kind, event=EventId(line.event.upper()), at=log.now()))
    code, output = await process.wait(), await stderr.final_text()
    raise CannotPlayError(f"the server ended with exit code {code}{f': {output}' if output else ''}")


async def _read_line(process: asyncio.subprocess.Process) -> bytes:
    return b"" if process.stdout is None else await process.stdout.readline()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT.total_seconds()):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
