"""A shell that runs the commands of guides as a reader would."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.server import LOOKS, call, until

OVER = "that was it:"


class Shell:
    """An interactive shell."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def type(self, command: str) -> str:
        """Run a command, which must succeed, and return its output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{\n{command}\n}} </dev/null; printf '\\n{OVER} %s\\n' $?\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line.startswith(OVER):
                assert line == f"{OVER} 0\n", f"{command}\n{''.join(said)}"
                return "".join(said).rstrip("\n")
            said.append(line)
        raise AssertionError(f"the shell has ended: {''.join(said)}")


@contextmanager
def shell(variables: Mapping[str, str], folder: Path | None = None) -> Iterator[Shell]:
    """Run a shell during the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["bash"], cwd=folder, env=variables, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield Shell(process)
        finally:
            process.kill()


def pending(operator: str) -> list[str]:
    """Return the ids of the events that are not approved."""
    events = json.loads(call("events", "--json", url=operator).stdout)
    return [str(event["id"]) for event in events if event["status"] == "Scheduled"]


def with_event(command: str, operator: str) -> str:
    """Return a command with the event id that a reader would type, once there is an event."""
    if "EVENT" not in command:
        return command
    # The tool may have to load a hundred libraries first.
    until(lambda: len(pending(operator)) == 1, "the event is announced", 2 * LOOKS)
    return command.replace("EVENT", pending(operator)[0])
