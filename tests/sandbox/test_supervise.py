"""The supervisor forwards signals and the exit code, and leaves no process behind."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.server import until
from tests.sandbox.programs import Exec, python

#: Leaves an orphaned daemon behind, prints the process ids, and waits.
FAMILY = """
import os, signal, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        time.sleep(600)
    os._exit(0)
os.wait()
daemon = int(os.read(reader, 20))
print(os.getpid(), os.getppid(), daemon, flush=True)
time.sleep(float(sys.argv[1]))
"""

#: Says which signals it gets; they are blocked, so that none can come just before it waits.
HANDLER = """
import os, signal
SIGNALS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
print("ready", flush=True)
while True:
    os.write(1, signal.Signals(signal.sigwait(SIGNALS)).name.encode() + b"\\n")
"""

WAITING = "import signal; print('ready', flush=True); signal.pause()"


def next_line(process: "subprocess.Popen[str]") -> str:
    """Return what a program says next; it is then known to run."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def alive(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def started(exec_: Exec, *program: str, isolate: bool) -> Iterator["subprocess.Popen[str]"]:
    """Give a program under supervision, and end it whatever happens."""
    with exec_.start(*program, isolate=isolate) as process:
        try:
            yield process
        finally:
            process.kill()


MODES = [
    pytest.param("redirecting", id="default"),
    pytest.param("isolating", id="isolated", marks=pytest.mark.slow),
]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> tuple[Exec, bool]:
    """Give ``exec`` in each of its modes."""
    return request.getfixturevalue(request.param), request.param == "isolating"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        pytest.param(("true",), 0, id="success"),
        pytest.param(("sh", "-c", "exit 42"), 42, id="a number of its own"),
        pytest.param(("sh", "-c", "kill -TERM $$"), 143, id="128 and the signal that ended it"),
        pytest.param(("sh", "-c", "kill -PIPE $$"), 141, id="a signal that Python would ignore"),
        pytest.param(("/dev/null/nothing",), 127, id="a program that does not exist"),
        pytest.param(("/etc/passwd",), 126, id="a file that is no program"),
    ],
)
def test_the_exit_code_is_the_programs(redirecting: Exec, program: tuple[str, ...], code: int) -> None:
    assert redirecting.run(*program).code == code


def test_a_program_that_does_not_exist_is_named(redirecting: Exec) -> None:
    done = redirecting.run("no-such-program")

    assert done.stderr == "error: no-such-program cannot be run: No such file or directory\n"


def test_signals_reach_the_program(redirecting: Exec) -> None:
    names = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"]
    with started(redirecting, *python(HANDLER), isolate=False) as process:
        assert next_line(process) == "ready"

        handled = []
        for name in names:
            process.send_signal(signal.Signals[name])
            handled.append(next_line(process))

    assert handled == names


def test_an_interrupt_from_the_terminal_reaches_the_program_once(redirecting: Exec) -> None:
    ours, theirs = os.openpty()
    words = ["setsid", "--ctty", *redirecting.words(*python(HANDLER))]
    with redirecting.popen(words, stdin=theirs) as process:
        try:
            assert next_line(process) == "ready"
            os.write(ours, b"\x03")
            first = next_line(process)
            process.terminate()
            second = next_line(process)
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)

    # Had the supervisor handed it on too, the program would have been interrupted twice.
    assert (first, second) == ("SIGINT", "SIGTERM")


def test_a_signal_that_ends_the_program_is_told_in_the_exit_code(mode: tuple[Exec, bool]) -> None:
    exec_, isolate = mode
    with started(exec_, *python(WAITING), isolate=isolate) as process:
        assert next_line(process) == "ready"
        process.terminate()
        _, err = process.communicate(timeout=20)

    assert (process.returncode, err) == (128 + signal.SIGTERM, "")


def test_the_program_gets_standard_input(redirecting: Exec) -> None:
    done = redirecting.run("sh", "-c", "readlink /proc/self/fd/0")

    assert done.stdout == "/dev/null\n"


def test_what_the_program_leaves_running_ends_with_it(mode: tuple[Exec, bool]) -> None:
    exec_, isolate = mode
    done = exec_.run(*python(FAMILY, "0"), isolate=isolate)

    _, _, daemon = map(int, done.stdout.split())
    assert done.code == 0
    assert not alive(daemon)


def test_the_tree_dies_with_a_supervisor_that_is_killed(mode: tuple[Exec, bool]) -> None:
    exec_, isolate = mode
    with started(exec_, *python(FAMILY, "600"), isolate=isolate) as process:
        family = list(map(int, next_line(process).split()))
        process.kill()
        until(lambda: not any(map(alive, family)), "the program, its reaper and its daemon are gone")


def test_the_tree_dies_with_a_reaper_that_is_killed(mode: tuple[Exec, bool]) -> None:
    exec_, isolate = mode
    with started(exec_, *python(FAMILY, "600"), isolate=isolate) as process:
        program, reaper, daemon = map(int, next_line(process).split())
        os.kill(reaper, signal.SIGKILL)
        code = process.wait(timeout=20)

        assert code == 128 + signal.SIGKILL
        assert not alive(program)
        assert not alive(daemon)
