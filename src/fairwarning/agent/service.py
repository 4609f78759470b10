"""The agent as a service: a thread that polls, a thread per job, and the loop that connects them.

All messages reach the loop through one inbox, so only one thread makes decisions. systemd learns through its
notify protocol that the agent is ready, alive or stopping.
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
from fairwarning.agent.discovery import NoEndpointError, discover, serves_events
from fairwarning.agent.hooks import SettingsError
from fairwarning.agent.http_server import listening
from fairwarning.agent.jobs import Job, Message, Named, Nameless, Polled, PollFailed
from fairwarning.agent.journal import Journal
from fairwarning.agent.loop import Agent, Snapshot
from fairwarning.agent.settings import AgentSettings
from fairwarning.agent.telemetry import AgentMetrics
from fairwarning.service_manager import ServiceManager

LOG = logging.getLogger("fairwarning.agent")

#: The loop runs at least this often, and counts as stuck after the longer time.
TURN_INTERVAL, STUCK_AFTER = timedelta(seconds=1), timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Reload:
    """A request to read the settings again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A request to stop the agent."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A thread ended with an unexpected error."""

    problem: Exception


@dataclass(frozen=True, slots=True)
class Found:
    """The search for the endpoint succeeded."""

    client: MetadataClient


ServiceMessage: TypeAlias = Message | Broken | Found | Reload | Stop


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
        self._inbox: SimpleQueue[ServiceMessage] = SimpleQueue()
        self._ended = threading.Event()
        self._last_turn = clock.elapsed()
        self.metrics = AgentMetrics()
        self.snapshot = Snapshot(waits={}, records=journal.records)
        self._manager = ServiceManager(environment)

    @property
    def turning(self) -> bool:
        """Whether the loop has run recently."""
        return self._clock.elapsed() - self._last_turn < STUCK_AFTER

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; SIGHUP reads the settings again."""
        with ExitStack() as stack:
            stack.enter_context(self._signals())
            if self._settings.listen is not None:
                port = stack.enter_context(listening(self._settings.listen, self))
                LOG.info("listening", extra={"host": self._settings.listen[0], "port": port})
            self._warn_of_problems()
            self._manager.ready("looking for the endpoint")
            self._start_thread(self._poll_endpoint, "poll")
            self._turn_until_stopped()
            self._ended.set()
            LOG.info("stopped")
            self._manager.stopping()

    def _turn_until_stopped(self) -> None:
        agent: Agent | None = None
        while True:
            for message in self._messages():
                match message:
                    case Stop():
                        return
                    case Broken(problem=problem):
                        # The agent must not look alive without it; the next agent continues from the journal.
                        raise problem
                    case Found(client=client):
                        agent = self._create_agent(client)
                    case Reload():
                        self._reload(agent)
                    case _:
                        if agent is not None:
                            agent.receive(message)
            if agent is not None:
                agent.turn()
                self.snapshot = agent.snapshot
            self._last_turn = self._clock.elapsed()
            self._manager.alive(_status(self.snapshot, agent is not None))

    def _messages(self) -> Iterator[ServiceMessage]:
        """Yield the messages in the inbox, after waiting at most one interval for the first."""
        try:
            yield self._inbox.get(timeout=TURN_INTERVAL.total_seconds())
            while True:
                yield self._inbox.get_nowait()
        except Empty:
            return

    def _create_agent(self, client: MetadataClient) -> Agent:
        return Agent(
            self._settings,
            self._journal,
            client,
            self._start,
            metrics=self.metrics,
            environment=self._environment,
            dry_run=self._dry_run,
        )

    def _start(self, job: Job) -> None:
        self._start_thread(lambda: self._inbox.put(job()), "job")

    def _start_thread(self, work: Callable[[], None], name: str) -> None:
        def run_guarded() -> None:
            try:
                work()
            except Exception as problem:
                self._inbox.put(Broken(problem))

        threading.Thread(target=run_guarded, name=name, daemon=True).start()

    def _reload(self, agent: Agent | None) -> None:
        try:
            settings = self._load()
        except SettingsError as problem:
            LOG.error("reload_refused", extra={"problem": str(problem)})
            return
        self._settings = settings
        self._warn_of_problems()
        if agent is not None:
            agent.settings = settings
        LOG.info("reloaded", extra={"rules": len(settings.policy.rules)})

    def _warn_of_problems(self) -> None:
        for problem in report.problems(self._settings, self._environment):
            LOG.warning("settings_problem", extra={"problem": problem})

    def _poll_endpoint(self) -> None:
        """Find the endpoint, then poll it until the service stops."""
        client = self._find_endpoint()
        if client is None:
            return
        name_known = self._settings.machine is not None
        while not self._ended.is_set():
            try:
                self._inbox.put(Polled(client.poll()))
            except (UnavailableError, RefusedError) as problem:
                self._inbox.put(PollFailed(str(problem)))
            name_known = name_known or self._ask_name(client)
            self._clock.wait(client.pause, self._ended)

    def _ask_name(self, client: MetadataClient) -> bool:
        try:
            self._inbox.put(Named(client.name()))
        except UnavailableError as problem:
            self._inbox.put(Nameless(str(problem)))
            return False
        return True

    def _find_endpoint(self) -> MetadataClient | None:
        failures = 0
        while not self._ended.is_set():
            try:
                endpoint, *others = (
                    discover(setting, self._environment, serves_events, now=self._clock.now())
                    for setting in self._settings.endpoints or (None,)
                )
            except NoEndpointError as problem:
                LOG.warning("no_endpoint", extra={"problem": str(problem)})
                self._clock.wait(back_off(failures), self._ended)
                failures += 1
                continue
            LOG.info("endpoint_found", extra={"endpoint": endpoint, **({"others": others} if others else {})})
            client = MetadataClient(
                endpoint,
                self._clock,
                version=self._settings.version,
                poll=self._settings.poll,
                others=others,
                moved=_log_move,
            )
            self._inbox.put(Found(client))
            return client
        return None

    @contextmanager
    def _signals(self) -> Iterator[None]:
        messages: Mapping[signal.Signals, ServiceMessage] = {
            signal.SIGTERM: Stop(),
            signal.SIGINT: Stop(),
            signal.SIGHUP: Reload(),
        }
        previous_handlers = {
            number: signal.signal(number, lambda *_, message=message: self._inbox.put(message))
            for number, message in messages.items()
        }
        try:
            yield
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)


def _log_move(endpoint: str, problem: str) -> None:
    LOG.warning("endpoint_changed", extra={"endpoint": endpoint, "problem": problem})


def _status(snapshot: Snapshot, endpoint_found: bool) -> str:
    if not endpoint_found:
        return "looking for the endpoint"
    state = "drained" if snapshot.drained else "at work"
    return f"{snapshot.machine or 'not named yet'} is {state}; events: {len(snapshot.records)}"
