"""Server processes: started on a core of their own, asked until they answer, ended by their pid."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from bench.load import PATH, PATIENCE, Unanswered
from bench.measure import Meter, cores, pinned, scheduler_seconds

ROOT = Path(__file__).parents[1]
LOOPBACK = "127.0.0.1"

#: The first machine's address on a listener that tells callers apart by theirs.
FIRST_SOURCE = IPv4Address("127.1.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers polls at an address."""

    name: str
    pid: int
    address: tuple[str, int]
    meter: Meter


def module(name: str, *arguments: str | int | Path) -> list[str]:
    """Return the command that runs a module of ours in a fresh interpreter."""
    return [sys.executable, "-m", name, *map(str, arguments)]


def free_port() -> int:
    """Return a port of the loopback address that nobody uses."""
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        port: int = one.getsockname()[1]
    return port


@contextmanager
def process(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command during the block, on the servers' core; what it complains of is told if it matters."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with tempfile.TemporaryFile() as log:
        with pinned(cores()[0]):
            child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        try:
            yield child
        except Unanswered as problem:
            log.seek(0)
            problem.add_note(log.read().decode())
            raise
        finally:
            _end(child)


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


def first_answer(child: subprocess.Popen[bytes], address: tuple[str, int], path: str = PATH) -> bytes:
    """Return the first answer a starting server gives, as soon as it gives one."""
    end = time.monotonic() + PATIENCE
    while child.poll() is None and time.monotonic() < end:
        try:
            return fetch(address, path)
        except ConnectionRefusedError:
            time.sleep(0.001)
    raise Unanswered(f"{child.args!r} does not answer at {address}; exit status {child.poll()}")


def fetch(address: tuple[str, int], path: str = PATH) -> bytes:
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
