"""Other programs, run so that neither they nor their children can hold the agent up.

Input and output go through files, not pipes: a program that does not read, writes without end or leaves a
child behind then cannot block us.
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

#: How much of a program's output a message carries: the end of it, where errors stand.
SHOWN: Final = 2000
#: How long a program that was told to end may take before it is killed.
GRACE: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """What became of a program: nothing wrong, or the problem; and the end of what it said."""

    problem: str | None
    said: str
    missing: bool = False

    @property
    def ok(self) -> bool:
        """Whether it exited 0 in time."""
        return self.problem is None

    @property
    def message(self) -> str:
        """The problem, if any, and the program's own words."""
        return ": ".join(part for part in (self.problem, self.said.strip()) if part)


def run(
    words: Sequence[str],
    within: timedelta,
    environment: Mapping[str, str],
    told: bytes = b"",
    shown: int = SHOWN,
) -> ProgramResult:
    """Return what became of ``words``; after ``within``, the program and its children are killed."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(told)
        given.seek(0)
        try:
            process = subprocess.Popen(
                words,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except FileNotFoundError:
            return ProgramResult(problem=f"there is no program {words[0]}", said="", missing=True)
        except (OSError, ValueError) as error:
            return ProgramResult(problem=f"{words[0]} cannot be run: {error}", said="")
        problem = _watch(process, within, words[0])
        return ProgramResult(problem=problem, said=_end(output, shown))


def _watch(process: subprocess.Popen[bytes], within: timedelta, name: str) -> str | None:
    try:
        code = process.wait(within.total_seconds())
    except subprocess.TimeoutExpired:
        _kill(process)
        return f"{name} was stopped after {for_people(within)}"
    if code < 0:
        return f"{name} was killed by signal {-code}"
    return f"{name} exits {code}" if code else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE.total_seconds())
    # The children too, which may have survived their parent.
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, what: signal.Signals) -> None:
    # They may all have ended already.
    with suppress(ProcessLookupError):
        os.killpg(group, what)


def _end(output: IO[bytes], shown: int) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - shown))
    return output.read(shown).decode(errors="replace")
