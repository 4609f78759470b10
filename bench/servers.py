"""Server processes: started on a core of their own, asked until they answer, ended by their pid."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import count
from pathlib import Path

import fairwarning
from bench.load import PATH, PATIENCE, Address, Load, Mode, Unanswered
from bench.measure import Meter, cores, pinned, scheduler_seconds

ROOT = Path(__file__).parents[1]
#: Where the code under test is: of this checkout, or of another that came first on the path.
SOURCE = Path(fairwarning.__file__).parents[1]
LOOPBACK = "127.0.0.1"

#: The first machine's address on a listener that tells callers apart by theirs.
FIRST_SOURCE = IPv4Address("127.1.0.1")


def sources(numbers: Iterable[int]) -> list[str]:
    """Return the addresses of some machines, counted from the first."""
    return [str(FIRST_SOURCE + number) for number in numbers]


#: So many ports behind a free one are free too.
ROOM = 20

#: Where ports are looked for: below those that connections are given, elsewhere in every process and never
#: in the same place again.
_BASES = (20_000 + (os.getpid() * 7 + turn) % 600 * ROOM for turn in count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers polls at an address."""

    name: str
    pid: int
    address: Address
    meter: Meter


def cost(server: Server, callers: Sequence[str], mode: Mode, warm_up: float, seconds: float) -> float:
    """Return how much CPU a server spends on each answer, in µs."""
    with Load(server.address, callers, mode) as load:
        load.run(warm_up)
        before = server.meter(server.pid)
        answered = load.run(seconds, at_least=len(callers))
        return (server.meter(server.pid) - before) / answered * 1e6


def module(name: str, *arguments: str | int | Path) -> list[str]:
    """Return the command that runs a module of ours in a fresh interpreter."""
    return [sys.executable, "-m", name, *map(str, arguments)]


def free_port() -> int:
    """Return a port of the loopback address that nobody uses, with some behind it that are free too."""
    return next(base for base in _BASES if all(map(_free, range(base, base + ROOM))))


def _free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


@contextmanager
def process(command: Sequence[str], talking: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command during the block, on the servers' core; what it complains of is told if it matters."""
    pipe = subprocess.PIPE if talking else subprocess.DEVNULL
    with tempfile.TemporaryFile() as log:
        with pinned(cores()[0]):
            child = subprocess.Popen(command, env=_environment(), stdin=pipe, stdout=pipe, stderr=log)
        try:
            with child.stdin or nullcontext(), child.stdout or nullcontext():
                yield child
        except Unanswered as problem:
            log.seek(0)
            problem.add_note(log.read().decode())
            raise
        finally:
            _end(child)


def finished(command: Sequence[str]) -> None:
    """Run a command to its end."""
    subprocess.run(command, env=_environment(), check=True, stdin=subprocess.DEVNULL)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def serving(
    name: str, command: Sequence[str], port: int, meter: Meter = scheduler_seconds
) -> Iterator[Server]:
    """Run a server during the block; it has answered before the block begins."""
    with process(command) as child:
        first_answer(child, (LOOPBACK, port))
        yield Server(name=name, pid=child.pid, address=(LOOPBACK, port), meter=meter)


def first_answer(child: subprocess.Popen[bytes], address: Address, path: str = PATH) -> bytes:
    """Return the first answer a starting server gives, as soon as it gives one."""
    end = time.monotonic() + PATIENCE
    while child.poll() is None and time.monotonic() < end:
        try:
            return fetch(address, path)
        except ConnectionRefusedError:
            time.sleep(0.001)
    raise Unanswered(f"{child.args!r} does not answer at {address}; exit status {child.poll()}")


def appears(child: subprocess.Popen[bytes], file: Path) -> None:
    """Return as soon as a starting server has written a file."""
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if child.poll() is not None or time.monotonic() > end:
            raise Unanswered(f"{child.args!r} does not write {file}; exit status {child.poll()}")
        time.sleep(0.001)


def fetch(address: Address, path: str = PATH) -> bytes:
    """Return what a server answers to the first machine."""
    host, port = address
    source = str(FIRST_SOURCE), 0
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE, source_address=source)
    try:
        connection.request("GET", path, headers={"Metadata": "true", "Host": f"{host}:{port}"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Unanswered(f"{address} said {answer.status} to {path}")
        return answer.read()
    finally:
        connection.close()
