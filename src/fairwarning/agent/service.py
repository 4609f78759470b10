"""The agent at work: a thread that polls, a thread per job, and the loop between them.

Everything reaches the loop through one inbox, so that what the agent remembers has one writer of decisions.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TypeAlias

from fairwarning.agent import report
from fairwarning.agent.client import MetadataClient, RefusedError, UnavailableError, back_off
from fairwarning.agent.clock import AgentClock
from fairwarning.agent.discovery import NoEndpointError, answers, discover
from fairwarning.agent.hooks import SettingsError
from fairwarning.agent.http_server import listening
from fairwarning.agent.jobs import Job, Message, Named, Nameless, Polled, PollFailed
from fairwarning.agent.journal import Journal
from fairwarning.agent.loop import Agent, Snapshot
from fairwarning.agent.metrics import AgentMetrics
from fairwarning.agent.sd_notify import Supervisor
from fairwarning.agent.settings import AgentSettings

LOG = logging.getLogger("fairwarning.agent")

#: The loop turns at least this often, and is taken for stuck after the longer time.
BEAT, STUCK = timedelta(seconds=1), timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Reload:
    """The file is to be read again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The agent is to end."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A thread came to an end that nobody foresaw."""

    problem: Exception


@dataclass(frozen=True, slots=True)
class Found:
    """The endpoint has been found."""

    client: MetadataClient


Note: TypeAlias = Message | Broken | Found | Reload | Stop


class AgentService:
    """An agent with its threads."""

    def __init__(
        self,
        load: Callable[[], AgentSettings],
        journal: Journal,
        clock: AgentClock,
        environment: Mapping[str, str],
        *,
        dry_run: bool = False,
    ) -> None:
        self._load = load
        self._settings = load()
        self._journal = journal
        self._clock = clock
        self._environment = environment
        self._dry_run = dry_run
        self._inbox: SimpleQueue[Note] = SimpleQueue()
        self._ended = threading.Event()
        self._turned = clock.elapsed()
        self.figures = AgentMetrics()
        self.snapshot = Snapshot(waits={}, records=journal.records)
        self._supervisor = Supervisor(environment)

    @property
    def turning(self) -> bool:
        """Whether the loop has turned lately."""
        return self._clock.elapsed() - self._turned < STUCK

    def run(self) -> None:
        """Work until asked to stop; SIGHUP reads the file again."""
        with ExitStack() as stack:
            stack.enter_context(self._signals())
            if self._settings.listen is not None:
                port = stack.enter_context(listening(self._settings.listen, self))
                LOG.info("listening", extra={"host": self._settings.listen[0], "port": port})
            self._warn_of_problems()
            self._supervisor.ready("looking for the endpoint")
            self._beside(self._watch, "poll")
            self._turn_until_stopped()
            self._ended.set()
            self._supervisor.stopping()

    def _turn_until_stopped(self) -> None:
        agent: Agent | None = None
        while True:
            for note in self._notes():
                match note:
                    case Stop():
                        return
                    case Broken(problem=problem):
                        # Blind or stuck, it must not look alive: the next agent goes on from the journal.
                        raise problem
                    case Found(client=client):
                        agent = self._begin(client)
                    case Reload():
                        self._reload(agent)
                    case _:
                        if agent is not None:
                            agent.take(note)
            if agent is not None:
                agent.turn()
                self.snapshot = agent.snapshot
            self._turned = self._clock.elapsed()
            self._supervisor.alive(_state(self.snapshot, agent is not None))

    def _notes(self) -> Iterator[Note]:
        """Yield what has come in, after waiting a beat for the first of it."""
        try:
            yield self._inbox.get(timeout=BEAT.total_seconds())
            while True:
                yield self._inbox.get_nowait()
        except Empty:
            return

    def _begin(self, client: MetadataClient) -> Agent:
        return Agent(
            self._settings,
            self._journal,
            client,
            self._start,
            figures=self.figures,
            environment=self._environment,
            dry_run=self._dry_run,
        )

    def _start(self, job: Job) -> None:
        self._beside(lambda: self._inbox.put(job()), "job")

    def _beside(self, work: Callable[[], None], name: str) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as problem:
                self._inbox.put(Broken(problem))

        threading.Thread(target=guarded, name=name, daemon=True).start()

    def _reload(self, agent: Agent | None) -> None:
        try:
            fresh = self._load()
        except SettingsError as problem:
            LOG.error("reload_refused", extra={"problem": str(problem)})
            return
        self._settings = fresh
        self._warn_of_problems()
        if agent is not None:
            agent.settings = fresh
        LOG.info("reloaded", extra={"rules": len(fresh.policy.rules)})

    def _warn_of_problems(self) -> None:
        for problem in report.problems(self._settings, self._environment):
            LOG.warning("settings_problem", extra={"problem": problem})

    def _watch(self) -> None:
        """Find the endpoint, then poll it until the end."""
        client = self._find()
        if client is None:
            return
        named = self._settings.machine is not None
        while not self._ended.is_set():
            try:
                self._inbox.put(Polled(client.poll()))
            except (UnavailableError, RefusedError) as problem:
                self._inbox.put(PollFailed(str(problem)))
            named = named or self._ask_name(client)
            self._clock.wait(client.pause, self._ended)

    def _ask_name(self, client: MetadataClient) -> bool:
        try:
            self._inbox.put(Named(client.name()))
        except UnavailableError as problem:
            self._inbox.put(Nameless(str(problem)))
            return False
        return True

    def _find(self) -> MetadataClient | None:
        failures = 0
        while not self._ended.is_set():
            try:
                endpoint = discover(
                    self._settings.endpoint, self._environment, answers, now=self._clock.now()
                )
            except NoEndpointError as problem:
                LOG.warning("no_endpoint", extra={"problem": str(problem)})
                self._clock.wait(back_off(failures), self._ended)
                failures += 1
                continue
            LOG.info("endpoint_found", extra={"endpoint": endpoint})
            client = MetadataClient(
                endpoint, self._clock, version=self._settings.version, poll=self._settings.poll
            )
            self._inbox.put(Found(client))
            return client
        return None

    @contextmanager
    def _signals(self) -> Iterator[None]:
        notes: Mapping[signal.Signals, Note] = {
            signal.SIGTERM: Stop(),
            signal.SIGINT: Stop(),
            signal.SIGHUP: Reload(),
        }
        before = {
            number: signal.signal(number, lambda *_, note=note: self._inbox.put(note))
            for number, note in notes.items()
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _state(snapshot: Snapshot, found: bool) -> str:
    if not found:
        return "looking for the endpoint"
    place = "drained" if snapshot.drained else "at work"
    return f"{snapshot.machine or 'not named yet'} is {place}; events: {len(snapshot.records)}"
