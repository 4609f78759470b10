"""The real az, in a configuration of its own, and a proxy that stops its requests to other machines."""

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

#: The time limit of a command, in seconds.
PATIENCE = 120


class Trap(socketserver.ThreadingTCPServer):
    """A proxy that records the requests it gets and forwards none."""

    daemon_threads = True

    def __init__(self) -> None:
        self.called: list[str] = []
        super().__init__(("127.0.0.1", 0), Caller)

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"


class Caller(socketserver.StreamRequestHandler):
    """A connection to the proxy."""

    server: Trap

    def handle(self) -> None:
        self.server.called.append(self.rfile.readline().decode(errors="replace").strip())
        self.request.shutdown(socket.SHUT_RDWR)


@contextmanager
def trap() -> Iterator[Trap]:
    """Run the proxy."""
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
    """az, logged in to a server."""

    variables: Mapping[str, str] = field(repr=False)

    def run(self, command: str) -> str:
        """Run a shell command, which must succeed, and return its output."""
        done = self.attempt(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, command: str) -> Json:
        """Run a command and return its output as JSON."""
        # For null az prints nothing.
        output: Json = json.loads(self.run(f"{command} --output json") or "null")
        return output

    def attempt(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, whether it succeeds or fails."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    @contextmanager
    def meanwhile(self, command: str) -> Iterator["subprocess.Popen[str]"]:
        """Run a command during the block; after the block it must end with success."""
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
    """Return the variables of a shell that finds az, fairwarning and the commands of the system only."""
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
    """Return az after ``fairwarning az-login``."""
    Az(environment(home, programs, proxy, cloud.server.ready["operator"])).run("fairwarning az-login")
    return reader(cloud, home, programs, proxy)


def reader(cloud: Live, home: Path, programs: Path, proxy: Trap) -> Az:
    """Return az in a shell with the variables of ``fairwarning az-env``."""
    shell = Az(environment(home, programs, proxy, cloud.server.ready["operator"]))
    exported = shell.run('eval "$(fairwarning az-env)"; env -0')
    pairs = (line.partition("=") for line in exported.split("\0") if line)
    return Az({name: value for name, _, value in pairs})
