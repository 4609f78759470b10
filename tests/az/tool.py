"""The real az, in a configuration of its own, and a trap for whatever it would say to the world."""

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fairwarning.core.document.render import Json
from tests.arm.live import Live

#: How many seconds a command gets.
PATIENCE = 120


class Trap(socketserver.ThreadingTCPServer):
    """A proxy that writes down who is called through it, and connects nobody."""

    daemon_threads = True

    def __init__(self) -> None:
        self.called: list[str] = []
        super().__init__(("127.0.0.1", 0), Caller)

    @property
    def url(self) -> str:
        """Where callers are caught."""
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"


class Caller(socketserver.StreamRequestHandler):
    """Somebody who wants to leave the machine."""

    server: Trap

    def handle(self) -> None:
        self.server.called.append(self.rfile.readline().decode(errors="replace").strip())
        self.request.shutdown(socket.SHUT_RDWR)


@contextmanager
def trap() -> Iterator[Trap]:
    """Give a proxy that nobody gets through."""
    with Trap() as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


@dataclass(frozen=True)
class Az:
    """The command line of Azure, logged in to a server."""

    variables: Mapping[str, str] = field(repr=False)

    def run(self, command: str) -> str:
        """Return what a command prints; it is written as in a shell, and must succeed."""
        done = self.attempt(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, command: str) -> Json:
        """Return what a command prints as JSON."""
        # For null az prints nothing.
        found: Json = json.loads(self.run(f"{command} --output json") or "null")
        return found

    def attempt(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, whatever that is."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    @contextmanager
    def meanwhile(self, command: str) -> Iterator["subprocess.Popen[str]"]:
        """Run a command while the block does something else; it must end, well, when the block has."""
        pipe = subprocess.PIPE
        words = ["bash", "-euo", "pipefail", "-c", f"exec {command}"]
        with subprocess.Popen(words, env=self.variables, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
                out, err = process.communicate(timeout=PATIENCE)
                assert process.returncode == 0, f"{command}\n{out}{err}"
            finally:
                process.kill()


def environment(home: Path, programs: Path, proxy: Trap, operator: str) -> dict[str, str]:
    """Return the variables of a shell in which only az, our own command and the system's are found."""
    kept = ("LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
    return {
        **{name: value for name, value in os.environ.items() if name in kept},
        "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.defpath)),
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "FAIRWARNING_URL": operator,
        "HTTPS_PROXY": proxy.url,
        "HTTP_PROXY": proxy.url,
        "NO_PROXY": "127.0.0.1,localhost",
    }


def login(cloud: Live, home: Path, programs: Path, proxy: Trap) -> Az:
    """Return az, logged in to a server as its own command does it."""
    Az(environment(home, programs, proxy, cloud.server.ready["operator"])).run("fairwarning az-login")
    return reader(cloud, home, programs, proxy)


def reader(cloud: Live, home: Path, programs: Path, proxy: Trap) -> Az:
    """Return az in a shell that has been told of the server, logged in or not."""
    shell = Az(environment(home, programs, proxy, cloud.server.ready["operator"]))
    exported = shell.run('eval "$(fairwarning az-env)"; env -0')
    pairs = (line.partition("=") for line in exported.split("\0") if line)
    return Az({name: value for name, _, value in pairs})
