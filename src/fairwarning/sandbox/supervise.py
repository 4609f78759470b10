"""Starts a program in a sandbox mode, forwards its signals and exit code, and ends all its descendants.

    supervisor      the process that called ``run``: forwards signals, serves the addresses
    └── reaper      inherits orphans; kills everything below when the program or the supervisor has ended
        └── program

There are two processes above the program because SIGKILL leaves no chance to clean up: whichever of them is
killed, the other is left to end the tree. A signal tells the reaper of the death of the supervisor, and
both are subreapers, so a process that detaches from its parent stays a descendant of one of them.

All signals of interest are blocked before the first fork, and both processes only ever wait for them
with ``sigwaitinfo``. So no signal is lost between two steps, and no handler interrupts a system call.

The program sends the descriptors of its mode to the supervisor over a socket pair, which closes on exec: an
empty read is the proof that the program has started.
"""

import contextlib
import errno
import os
import shutil
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from fairwarning.sandbox.errors import ModeForbiddenError, NotStartedError
from fairwarning.sandbox.syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl

#: The signals that are forwarded to the program.
FORWARDED = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2
})  # fmt: skip
_AWAITED = FORWARDED | {signal.SIGCHLD}

#: Python ignores these signals; programs expect the default.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)

#: The si_code of a signal from the kernel: the terminal signals the whole group, so the program has it too.
_FROM_TERMINAL = 0x80

_MAX_DESCRIPTORS = 8


class SandboxMode(Protocol):
    """A way to give a program the well-known addresses."""

    def enter(self) -> tuple[int, ...]:
        """Prepare this process, which becomes the program; return descriptors for the supervisor."""
        ...

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Serve the addresses, in the background."""
        ...


@dataclass(frozen=True, slots=True)
class _Start:
    command: tuple[str, ...]
    mode: SandboxMode
    environment: Mapping[str, str] | None
    channel: socket.socket
    #: The signal mask before ``run`` changed it.
    mask: set[int | signal.Signals]


def run(command: tuple[str, ...], mode: SandboxMode, environment: Mapping[str, str] | None = None) -> int:
    """Run a program to its end and return its exit code; 128 + n if signal n ended it.

    The program has the environment of this process, unless it is given another.

    This takes over the process: its other children end with the program.

    Raises:
        ModeForbiddenError: the machine does not allow the mode; nothing was started.
        NotStartedError: the program cannot be run.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    supervisor = os.getpid()
    reaper = os.fork()
    if reaper == 0:
        ours.close()
        _run_reaper(_Start(command, mode, environment, theirs, previous_mask), supervisor)
    theirs.close()
    try:
        with ours:
            program = _wait_for_start(ours, command, mode)
        return _forward_signals(reaper, program)
    finally:
        end_descendants()
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def end_descendants() -> None:
    """Kill every descendant of this process, and return when none is left."""
    while True:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Orphans are adopted before their parent can be waited for, so none is missed.
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _wait_for_start(channel: socket.socket, command: tuple[str, ...], mode: SandboxMode) -> int:
    """Wait until the program runs and return its pid."""
    message, descriptors, _, _ = socket.recv_fds(channel, 256, _MAX_DESCRIPTORS)
    word, _, rest = message.decode().partition(" ")
    if word != "entered":
        code, _, feature = rest.partition(" ")
        raise ModeForbiddenError(feature or "a new process", int(code or errno.EPERM))
    mode.serve(tuple(descriptors))
    # The program's end of the channel closes on exec.
    failed = channel.recv(256)
    if failed:
        raise NotStartedError(command[0], int(failed))
    return int(rest)


def _forward_signals(reaper: int, program: int) -> int:
    while True:
        info = signal.sigwaitinfo(_AWAITED)
        if info.si_signo == signal.SIGCHLD:
            # Other processes become children of the supervisor only if the reaper was killed.
            ended, status = os.waitpid(reaper, os.WNOHANG)
            if ended:
                return _exit_code(status)
        elif info.si_code != _FROM_TERMINAL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, info.si_signo)


def _run_reaper(start: _Start, supervisor: int) -> NoReturn:
    """Start the program and wait until it or the supervisor has ended; runs in the reaper."""
    code = 1
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        reaper = os.getpid()
        program = os.fork()
        if program == 0:
            _exec_program(start, reaper)
        start.channel.close()
        status: int | None = None
        while status is None and os.getppid() == supervisor:
            signal.sigwaitinfo(_AWAITED)
            status = _reap(program)
        end_descendants()
        code = 1 if status is None else _exit_code(status)
    finally:
        os._exit(code)


def _reap(program: int) -> int | None:
    """Reap ended children; return the program's status if it is among them."""
    status = None
    while True:
        try:
            ended, ended_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            return status
        if ended == program:
            status = ended_status


def _exec_program(start: _Start, reaper: int) -> NoReturn:
    """Enter the mode and replace this process with the program."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != reaper:
            os._exit(1)
        _enter(start.mode, start.channel)
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, start.mask)
        try:
            _replace_process(start.command, start.environment)
        except OSError as error:
            start.channel.send(str(error.errno).encode())
    finally:
        os._exit(1)


def _replace_process(command: tuple[str, ...], environment: Mapping[str, str] | None) -> NoReturn:
    path = _resolve(command[0])
    if environment is None:
        os.execv(path, command)
    os.execve(path, command, environment)


def _resolve(program: str) -> str:
    """Return the path of a program; an unreadable directory counts as empty, as in shells."""
    path = program if os.sep in program else shutil.which(program)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return path


def _enter(mode: SandboxMode, channel: socket.socket) -> None:
    try:
        descriptors = mode.enter()
    except ModeForbiddenError as reason:
        channel.send(f"forbidden {reason.code} {reason.what}".encode())
        os._exit(1)
    socket.send_fds(channel, [f"entered {os.getpid()}".encode()], list(descriptors))
    for descriptor in descriptors:
        os.close(descriptor)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _descendants(root: int) -> list[int]:
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    descendants, generation = list[int](), {root}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        descendants += generation
    return descendants


def _parent(process: Path) -> int:
    """Return the pid of a process's parent; 0 if the process is gone."""
    try:
        stat = (process / "stat").read_bytes()
    except OSError:
        return 0
    # The name of the program may hold any character, even a bracket.
    return int(stat.rpartition(b")")[2].split()[1])
