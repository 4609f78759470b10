"""Starts a program in a mode of ours, stands in for it, and lets nothing outlive it.

    supervisor      what was started: takes the signals, answers for the addresses
    └── keeper      inherits orphans; ends everything below when the program or the supervisor is gone
        └── program

Two processes of ours, because a SIGKILL leaves no chance to clean up: whichever is killed, the other is left
to end the tree. Both only ever wait for signals, so that none of them interrupts anything.
"""

import contextlib
import errno
import os
import shutil
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from fairwarning.sandbox.errors import ForbiddenError, NotStartedError
from fairwarning.sandbox.syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl

#: What is handed on to the program.
FORWARDED = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2
})  # fmt: skip
_AWAITED = FORWARDED | {signal.SIGCHLD}

#: Python ignores these; a program that it starts expects not to.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)

#: The terminal sends its signals to the whole group, so the program has them already.
_FROM_TERMINAL = 0x80

_DESCRIPTORS_AT_MOST = 8


class SandboxMode(Protocol):
    """A way to give a program Azure's addresses."""

    def enter(self) -> tuple[int, ...]:
        """Prepare this process, which becomes the program; return what the supervisor needs."""
        ...

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Begin to answer for the addresses, in the background."""
        ...


@dataclass(frozen=True, slots=True)
class _Start:
    command: tuple[str, ...]
    mode: SandboxMode
    channel: socket.socket
    #: The signals that were blocked before we blocked more.
    mask: set[int | signal.Signals]


def run(command: tuple[str, ...], mode: SandboxMode) -> int:
    """Run a program to its end and return its exit code; 128 + n if signal n ended it.

    This takes the process over: whatever other children it has end with the program.

    Raises:
        Forbidden: the mode is not allowed here; nothing was started.
        NotStarted: the program cannot be run.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    supervisor = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        ours.close()
        _keep(_Start(command, mode, theirs, before), supervisor)
    theirs.close()
    try:
        with ours:
            program = _hear(ours, command, mode)
        return _stand_in(keeper, program)
    finally:
        end_descendants()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_descendants() -> None:
    """Kill every process below this one, and return once there is none."""
    while True:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Orphans come to us before their parent is seen to have gone, so none is missed.
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _hear(channel: socket.socket, command: tuple[str, ...], mode: SandboxMode) -> int:
    """Return the program's pid once it runs."""
    said, descriptors, _, _ = socket.recv_fds(channel, 256, _DESCRIPTORS_AT_MOST)
    word, _, rest = said.decode().partition(" ")
    if word != "entered":
        code, _, what = rest.partition(" ")
        raise ForbiddenError(what or "a new process", int(code or errno.EPERM))
    mode.serve(tuple(descriptors))
    # The program's end of the channel closes as it starts.
    failed = channel.recv(256)
    if failed:
        raise NotStartedError(command[0], int(failed))
    return int(rest)


def _stand_in(keeper: int, program: int) -> int:
    while True:
        got = signal.sigwaitinfo(_AWAITED)
        if got.si_signo == signal.SIGCHLD:
            # Others than the keeper come to us only if it was killed.
            ended, status = os.waitpid(keeper, os.WNOHANG)
            if ended:
                return _exit_code(status)
        elif got.si_code != _FROM_TERMINAL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, got.si_signo)


def _keep(start: _Start, supervisor: int) -> NoReturn:
    """Be the keeper: start the program and wait for its end, or the supervisor's."""
    code = 1
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        keeper = os.getpid()
        program = os.fork()
        if program == 0:
            _become(start, keeper)
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
    """Let go of the dead; return the program's status if it is among them."""
    status = None
    while True:
        try:
            ended, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            return status
        if ended == program:
            status = how


def _become(start: _Start, keeper: int) -> NoReturn:
    """Be the program."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
        _enter(start.mode, start.channel)
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, start.mask)
        try:
            os.execv(_found(start.command[0]), start.command)
        except OSError as error:
            start.channel.send(str(error.errno).encode())
    finally:
        os._exit(1)


def _found(program: str) -> str:
    """Return where a program is; a directory that may not be searched holds none, as shells see it."""
    path = program if os.sep in program else shutil.which(program)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return path


def _enter(mode: SandboxMode, channel: socket.socket) -> None:
    try:
        descriptors = mode.enter()
    except ForbiddenError as reason:
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
    found, generation = list[int](), {root}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        found += generation
    return found


def _parent(process: Path) -> int:
    """Return the pid of a process's parent; 0 if the process is gone."""
    try:
        stat = (process / "stat").read_bytes()
    except OSError:
        return 0
    # The name of the program may hold anything, even brackets.
    return int(stat.rpartition(b")")[2].split()[1])
