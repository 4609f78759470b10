"""The handler on one machine: its process, its folder and its environment."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

from fairwarning.check import sandbox_child
from fairwarning.check.background import OUTPUT_LIMIT, OutputTail
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Life, Phase

HOOK = Path(__file__).with_name("hook.py")

#: The time between SIGTERM and SIGKILL.
GRACE = timedelta(seconds=2)


@dataclass(slots=True, kw_only=True)
class Handler:
    """The handler of one machine; it can be started again after it ended."""

    machine: str
    host_name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    log: ObservationLog
    error_fd: int
    output: OutputTail = field(default_factory=OutputTail)
    _process: asyncio.subprocess.Process | None = None
    _watch: asyncio.Task[None] | None = None
    _ended_by_step: bool = False

    @property
    def running(self) -> bool:
        """Whether the handler is running."""
        return self._watch is not None and not self._watch.done()

    @property
    def problem(self) -> str | None:
        """Why the handler could not be run; None if it could."""
        return os.pread(self.error_fd, OUTPUT_LIMIT, 0).decode(errors="replace") or None

    async def start(self) -> None:
        """Start the handler in a sandbox, unless it is running."""
        if self.running:
            return
        self._ended_by_step = False
        self._process = await asyncio.create_subprocess_exec(
            *sandbox_child.command_line(self.port, self.host_name, self.error_fd, self.command),
            pass_fds=(self.error_fd,),
            env=dict(self.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        life = Life(machine=self.machine, begun=self.log.now())
        self._watch = asyncio.create_task(self._watch_run(self._process, life))

    async def kill(self) -> None:
        """Kill the handler, as a crash or a reboot does, and wait until all its processes are gone."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Stop the handler with SIGTERM, and with SIGKILL if it does not end."""
        await self._end(signal.SIGTERM, GRACE)
        await self.kill()

    async def _end(self, number: signal.Signals, grace: timedelta | None = None) -> None:
        if self._process is None or self._watch is None or self._watch.done():
            return
        self._ended_by_step = True
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        timeout = None if grace is None else grace.total_seconds()
        await asyncio.wait((self._watch,), timeout=timeout)

    async def _watch_run(self, process: asyncio.subprocess.Process, life: Life) -> None:
        number = self.log.put_life(life)
        # The pipe ends when the last process that holds it ends, so no process of the handler is left then.
        await self.output.follow(process.stdout)
        code = await process.wait()
        ended = replace(life, ended=self.log.now(), code=code, ended_by_step=self._ended_by_step)
        self.log.put_life(ended, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerEnvironment:
    """The folder, the hooks and the variables of a handler."""

    machine: str
    folder: Path
    hook_url: str

    @property
    def work(self) -> Path:
        """The folder for the handler's files; they survive a reboot."""
        return self.folder / "work"

    @property
    def placeholders(self) -> dict[str, str]:
        """The placeholders of the handler's command line, and their values."""
        return {
            "vm": self.machine,
            "work": str(self.work),
            "call": self._url,
            **{phase.value: str(self.folder / phase.value) for phase in Phase},
        }

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the handler."""
        renamed = {"vm": "machine"}
        return {f"FAIRWARNING_{renamed.get(n, n).upper()}": value for n, value in self.placeholders.items()}

    @property
    def _url(self) -> str:
        return f"{self.hook_url}/{quote(self.machine, safe='')}"

    def create(self) -> None:
        """Create the folder, with a hook program for each phase."""
        self.work.mkdir(parents=True)
        url = urlsplit(self._url)
        for phase in Phase:
            command = (sys.executable, "-I", "-S", HOOK, url.hostname, url.port, f"{url.path}/{phase}")
            script = f'#!/bin/sh\nexec {shlex.join(map(str, command))} "${{1:-$FAIRWARNING_EVENT_ID}}"\n'
            path = self.folder / phase.value
            path.write_text(script, encoding="utf-8")
            path.chmod(0o755)

    def expand(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return a command line with its placeholders replaced."""
        expanded = list(command)
        for name, value in self.placeholders.items():
            expanded = [word.replace(f"{{{name}}}", value) for word in expanded]
        return tuple(expanded)
