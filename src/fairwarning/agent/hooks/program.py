"""Runs other programs so that neither they nor their children can block the agent.

Input and output go through files, not pipes. So a program that never reads, writes without end, or leaves a
child behind cannot block the agent.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, Final

from fairwarning.formats.durations import for_people

#: How many bytes of a program's output are kept: the end, where errors are.
OUTPUT_LIMIT: Final = 2000
#: The time between SIGTERM and SIGKILL.
GRACE: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """The result of a program: the problem, if there is one, and the end of its output."""

    problem: str | None
    output: str
    missing: bool = False

    @property
    def ok(self) -> bool:
        """Whether the program exited with 0 in time."""
        return self.problem is None

    @property
    def message(self) -> str:
        """The problem, if there is one, and the output."""
        return ": ".join(part for part in (self.problem, self.output.strip()) if part)


def run(
    command: Sequence[str],
    timeout: timedelta,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    output_limit: int = OUTPUT_LIMIT,
) -> ProgramResult:
    """Run a command and return its result; after ``timeout``, the program and its children are killed."""
    with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as output:
        input_file.write(stdin)
        input_file.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=input_file,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except FileNotFoundError:
            return ProgramResult(problem=f"program {command[0]} not found", output="", missing=True)
        except (OSError, ValueError) as error:
            return ProgramResult(problem=f"{command[0]} cannot be run: {error}", output="")
        problem = _wait(process, timeout, command[0])
        return ProgramResult(problem=problem, output=_end(output, output_limit))


def _wait(process: subprocess.Popen[bytes], timeout: timedelta, name: str) -> str | None:
    try:
        code = process.wait(timeout.total_seconds())
    except subprocess.TimeoutExpired:
        _kill(process)
        return f"{name} was stopped after {for_people(timeout)}"
    if code < 0:
        return f"{name} was killed by signal {-code}"
    return f"{name} exits {code}" if code else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE.total_seconds())
    # Children may have survived their parent.
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    # All of its processes may have ended.
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _end(output: IO[bytes], limit: int) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - limit))
    return output.read(limit).decode(errors="replace")
