"""A ``fairwarning up`` that runs inside a namespace, and its operator's commands."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tests.real.namespaces import ENDPOINT, Namespace

FAIRWARNING = str(Path(sys.executable).with_name("fairwarning"))


class Entry(TypedDict):
    """One line of ``fairwarning history --json``."""

    at: str
    kind: str
    event: str
    by: str | None
    resources: list[str]


class Ready(TypedDict):
    """What ``--ready-file`` says."""

    operator: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The operator's side: everything goes through the command line, inside the namespace."""

    host: Namespace
    url: str

    def tell(self, *words: str) -> str:
        """Return what the operator's command prints."""
        return self.host.run(FAIRWARNING, *words, FAIRWARNING_URL=self.url)

    def history(self) -> list[Entry]:
        """Return what has happened so far."""
        entries: list[Entry] = json.loads(self.tell("history", "--json"))
        return entries

    def kinds(self, machine: str) -> list[str]:
        """Return what has happened to ``machine``, oldest first."""
        return [entry["kind"] for entry in self.history() if machine in entry["resources"]]


@contextmanager
def up(
    host: Namespace, scratch: Path, machines: tuple[str, ...], addresses: Mapping[str, str]
) -> Iterator[Server]:
    """Give a running server for ``machines``, known by ``addresses``; its clock stands still."""
    ready, log = scratch / "ready.json", scratch / "up.log"
    inventory = [word for vm, ip in addresses.items() for word in ("--address", f"{vm}={ip}")]
    listen = ["--listen", f"{ENDPOINT}:80", "--port-base", "0", "--ready-file", str(ready)]
    words = [FAIRWARNING, "up", *machines, *listen, *inventory, "--clock", "manual"]
    with log.open("w") as output:
        process = subprocess.Popen(host.command(*words), stdout=output, stderr=output)
    try:
        yield Server(host=host, url=_wait(process, ready, log)["operator"])
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], ready: Path, log: Path) -> Ready:
    for _ in range(600):
        if ready.exists() and (text := ready.read_text()):
            addresses: Ready = json.loads(text)
            return addresses
        try:
            code = process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"fairwarning up exits {code}: {log.read_text()}")
    raise AssertionError(f"fairwarning up is not ready after 30 s: {log.read_text()}")
