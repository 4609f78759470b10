"""Clients of the operator API do not use up the descriptors that guests need."""

import json
import resource
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from tests.cli.server import Ready, until

FEW = 256
_LIMITED = (
    "import resource, sys; "
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FEW}, {FEW})); "
    "from fairwarning.cli import cli; cli(sys.argv[1:])"
)


def test_silent_clients_of_the_operator_keep_no_guest_out(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    up = ["up", "--vm", "db", "--start-enabled", "--port-base", "0", "--ready-file", str(ready)]
    with ExitStack() as stack:
        out = stack.enter_context((tmp_path / "out").open("wb"))
        server = subprocess.Popen([sys.executable, "-c", _LIMITED, *up], stdout=out, stderr=out)
        stack.callback(server.wait, 20)
        stack.callback(server.terminate)
        until(lambda: ready.exists() or server.poll() is not None, "the server is ready")
        urls: Ready = json.loads(ready.read_text())
        port = int(urls["operator"].rpartition(":")[2])
        for _ in range(min(450, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))

        url = f"{urls['metadata']['db']}/metadata/scheduledevents?api-version=2020-07-01"
        with urllib.request.urlopen(
            urllib.request.Request(url, headers={"Metadata": "true"}), timeout=10
        ) as response:
            document = json.loads(response.read())

    assert document == {"DocumentIncarnation": 1, "Events": []}
