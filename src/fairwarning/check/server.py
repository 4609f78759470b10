"""A server of its own for each play, and its operator API as a client sees it."""

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

from fairwarning.check.background import beside
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import CausedEvent, Happened
from fairwarning.check.output_tail import OutputTail
from fairwarning.check.scenario import FleetSpec, Scenario
from fairwarning.check.timing import Timing
from fairwarning.core.document.render import EVENTS_PATH, Json, render_start_request
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId
from fairwarning.formats import durations
from fairwarning.sandbox.addresses import Endpoint

#: How long a server may take to come up, and to go.
TO_START, TO_STOP = timedelta(seconds=60), timedelta(seconds=10)


class CannotPlayError(FairWarningError):
    """The play itself failed; that says nothing about the handler."""


class StepRefusedError(CannotPlayError):
    """The server will not do what a step asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    operator: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    kind: str
    event: str | None = None


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
    """A running server, and the task that follows its history: it fails when the server ends."""

    def __init__(self, ready: _Ready, http: httpx2.AsyncClient, history: "asyncio.Task[None]") -> None:
        self._ready = ready
        self._http = http
        self.history = history

    def endpoint(self, machine: str) -> Endpoint:
        """Return where a machine's metadata is.

        Raises:
            CannotPlay: there is no such machine.
        """
        if machine not in self._ready.metadata:
            known = ", ".join(self._ready.metadata)
            raise CannotPlayError(f"the fleet has no machine {machine}; it has {known}")
        where = urlsplit(self._ready.metadata[machine])
        return Endpoint(IPv4Address(where.hostname or ""), where.port or 80)

    async def cause(
        self, label: str, cause: str, machines: list[str], notice: str | None
    ) -> tuple[CausedEvent, ...]:
        """Do something to machines and return the events that announce it."""
        asked: dict[str, Json] = {"cause": cause, "machines": [*machines], "by": "check"}
        answer = await self._call("POST", "/events", asked if notice is None else {**asked, "notice": notice})
        events = msgspec.json.decode(answer, type=_Events).events
        return tuple(
            CausedEvent(id=EventId(one.id.upper()), label=label, resources=one.resources) for one in events
        )

    async def cancel(self, event: EventId) -> None:
        """Withdraw an event."""
        await self._call("POST", f"/events/{event}/cancel", {"by": "check"})

    async def approve(self, event: EventId, by: str | None) -> None:
        """Approve an event, as a machine or as the operator."""
        if by is None:
            await self._call("POST", f"/events/{event}/approve", {"by": "check"})
            return
        host, port = self.endpoint(by).address
        url = f"http://{host}:{port}{EVENTS_PATH}?api-version={NEWEST}"
        body = render_start_request(event)
        with suppress(httpx2.TransportError):  # it may be gone already, and its machine with it
            await self._http.post(url, content=body, headers={"Metadata": "true"})

    async def ail(self, machine: str, fault: str, lasts: timedelta, delay: str) -> None:
        """Let a machine's endpoint misbehave for a while."""
        asked: dict[str, Json] = {"fault": fault, "lasts": durations.for_people(lasts), "delay": delay}
        await self._call("PUT", f"/machines/{machine}/fault", asked)

    async def _call(self, method: str, path: str, body: Mapping[str, Json]) -> bytes:
        try:
            answer = await self._http.request(method, f"{self._ready.operator}/fleet/v1{path}", json=body)
        except httpx2.TransportError as problem:
            raise CannotPlayError(f"the server does not answer: {problem}") from problem
        if answer.is_error:
            raise StepRefusedError(msgspec.json.decode(answer.content, type=_Problem).detail)
        return answer.content


@asynccontextmanager
async def serving(
    scenario: Scenario, pace: Timing, notebook: ObservationLog, environment: Mapping[str, str]
) -> AsyncIterator[Server]:
    """Give a server with a scenario's fleet; its history is written down as it happens.

    Raises:
        CannotPlay: the server does not come up.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairwarning.check.die_with_parent"),
        *(sys.executable, "-m", "fairwarning", "up", "--json", "--no-arm", "--port-base", "0"),
        *("--speed", f"{pace.speed_of(scenario):g}", *_options(scenario.fleet, pace)),
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said = OutputTail()
    try:
        async with beside(said.follow(process.stderr)):
            ready = await _ready(process, said)
            async with (
                httpx2.AsyncClient(trust_env=False, timeout=30) as http,
                beside(_follow(process, said, notebook)) as history,
            ):
                yield Server(ready, http, history)
    finally:
        await _stop(process)


def _options(fleet: FleetSpec, pace: Timing) -> Iterator[str]:
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
        yield from ("--first-call-delay", durations.for_people(pace.length(fleet.first_call_delay)))
    if fleet.preview_version:
        yield "--preview-version"
    yield from ("--timings", fleet.timings)


async def _ready(process: asyncio.subprocess.Process, said: OutputTail) -> _Ready:
    try:
        async with asyncio.timeout(TO_START.total_seconds()):
            line = await _line(process)
            if not line:
                raise CannotPlayError(f"the server did not start: {await said.last()}")
    except TimeoutError:
        raise CannotPlayError(f"the server did not start within {durations.for_people(TO_START)}") from None
    return msgspec.json.decode(line, type=_Ready)


async def _follow(process: asyncio.subprocess.Process, said: OutputTail, notebook: ObservationLog) -> None:
    """Write down the history, line by line.

    Raises:
        CannotPlay: the server has ended.
    """
    while text := await _line(process):
        line = msgspec.json.decode(text, type=_Line)
        if line.event is not None:
            happened = Happened(kind=line.kind, event=EventId(line.event.upper()), at=notebook.now())
            notebook.happen(happened)
    code, last = await process.wait(), await said.last()
    raise CannotPlayError(f"the server ended with exit code {code}{f': {last}' if last else ''}")


async def _line(process: asyncio.subprocess.Process) -> bytes:
    return b"" if process.stdout is None else await process.stdout.readline()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(TO_STOP.total_seconds()):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
