"""The handler on one machine: its folder, its environment, and its runs."""

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
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Life, Phase
from fairwarning.check.output_tail import KEPT, OutputTail

HOOK = Path(__file__).with_name("hook.py")

#: How long a handler may take to end when asked to.
GRACE = timedelta(seconds=2)


@dataclass(slots=True, kw_only=True)
class Handler:
    """One machine's handler, now and again."""

    machine: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    notebook: ObservationLog
    complaints: int
    printed: OutputTail = field(default_factory=OutputTail)
    _process: asyncio.subprocess.Process | None = None
    _watch: asyncio.Task[None] | None = None
    _ours: bool = False

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._watch is not None and not self._watch.done()

    @property
    def problem(self) -> str | None:
        """Why it could not be run at all, if so."""
        return os.pread(self.complaints, KEPT, 0).decode(errors="replace") or None

    async def start(self) -> None:
        """Run it, in a sandbox whose endpoint is ours; one that runs already is left alone."""
        if self.running:
            return
        self._ours = False
        self._process = await asyncio.create_subprocess_exec(
            *sandbox_child.words(self.port, self.complaints, self.command),
            pass_fds=(self.complaints,),
            env=dict(self.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        life = Life(machine=self.machine, begun=self.notebook.now())
        self._watch = asyncio.create_task(self._live(self._process, life))

    async def kill(self) -> None:
        """End it at once, as a crash or a reboot does, and return when all of it is gone."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        await self._end(signal.SIGTERM, GRACE)
        await self.kill()

    async def _end(self, how: signal.Signals, patience: timedelta | None = None) -> None:
        if self._process is None or self._watch is None or self._watch.done():
            return
        self._ours = True
        with suppress(ProcessLookupError):
            self._process.send_signal(how)
        within = None if patience is None else patience.total_seconds()
        await asyncio.wait((self._watch,), timeout=within)

    async def _live(self, process: asyncio.subprocess.Process, life: Life) -> None:
        number = self.notebook.live(life)
        # The pipe ends with the last process that holds it, so nothing is left of the handler then.
        await self.printed.follow(process.stdout)
        code = await process.wait()
        ended = replace(life, ended=self.notebook.now(), code=code, ours=self._ours)
        self.notebook.live(ended, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerEnvironment:
    """What a handler finds on its machine."""

    machine: str
    folder: Path
    call: str

    @property
    def work(self) -> Path:
        """Where it may leave files; they survive the machine's reboot."""
        return self.folder / "work"

    @property
    def words(self) -> dict[str, str]:
        """What stands for what in its command line."""
        return {
            "vm": self.machine,
            "work": str(self.work),
            "call": self._url,
            **{phase.value: str(self.folder / phase.value) for phase in Phase},
        }

    @property
    def variables(self) -> dict[str, str]:
        """What its environment tells it."""
        renamed = {"vm": "machine"}
        return {f"FAIRWARNING_{renamed.get(n, n).upper()}": value for n, value in self.words.items()}

    @property
    def _url(self) -> str:
        return f"{self.call}/{quote(self.machine, safe='')}"

    def furnish(self) -> None:
        """Make the folder, with a hook for each phase."""
        self.work.mkdir(parents=True)
        where = urlsplit(self._url)
        for phase in Phase:
            words = (sys.executable, "-I", "-S", HOOK, where.hostname, where.port, f"{where.path}/{phase}")
            script = f'#!/bin/sh\nexec {shlex.join(map(str, words))} "${{1:-$FAIRWARNING_EVENT_ID}}"\n'
            path = self.folder / phase.value
            path.write_text(script, encoding="utf-8")
            path.chmod(0o755)

    def filled(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return a command line with the names in braces replaced."""
        filled = list(command)
        for name, value in self.words.items():
            filled = [word.replace(f"{{{name}}}", value) for word in filled]
        return tuple(filled)
