"""Processes of ``fairwarning``, forked from a process that has imported everything.

A new interpreter spends a third of a second on imports. A forked process still has its own output, signals
and exit code. Tests of the start itself use ``tests.cli.server.fresh``.
"""

import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import fairwarning
from fairwarning.cli import cli

_CONTEXT = multiprocessing.get_context("forkserver")
_OURS = [
    module.name
    for module in pkgutil.walk_packages(fairwarning.__path__, "fairwarning.")
    if "__" not in module.name
]
_THEIRS = ["anyio._backends._asyncio", "encodings.idna", "h11", "httpcore2", "logging.config", "truststore"]
_UVICORN = ["uvicorn.lifespan.off", "uvicorn.protocols.http.httptools_impl"]
_CONTEXT.set_forkserver_preload([__name__, "pytest", *_OURS, *_THEIRS, *_UVICORN])


class Forked:
    """A process that runs one command line, with the methods of ``subprocess.Popen``."""

    def __init__(self, words: Sequence[str], stdout: Path, stderr: Path) -> None:
        arguments = (tuple(words), stdout, stderr, Path.cwd(), dict(os.environ))
        self._process = _CONTEXT.Process(target=_run, args=arguments)
        self._process.start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process has ended."""
        # The process may end between the check and the signal.
        with suppress(ProcessLookupError):
            if self._process.is_alive():
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end and return the exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("fairwarning", timeout or 0)
        return self._process.exitcode


def _run(words: tuple[str, ...], stdout: Path, stderr: Path, folder: Path, variables: dict[str, str]) -> None:
    for path, stream in ((stdout, 1), (stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["fairwarning", *words]
    warnings.simplefilter("error")
    cli(words, prog_name="fairwarning")
