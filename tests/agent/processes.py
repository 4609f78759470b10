"""Machines with agents that run as processes, and the calls of their hooks."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.server import Server, Shown, until

AGENT = (sys.executable, "-W", "error", "-m", "fairwarning", "agent")

NOTE = 'echo {phase} "$FAIRWARNING_EVENT_ID" >> {log}'


@dataclass
class Guest:
    """A machine with an agent whose hooks record their calls."""

    server: Server
    folder: Path
    machine: str
    extra: str = ""
    after: str = ""
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "hooks.log"

    @property
    def config(self) -> Path:
        return self.folder / "agent.toml"

    def write(self) -> None:
        self.folder.mkdir(exist_ok=True)
        prepare = f"{NOTE.format(phase='prepare', log=self.log)}{self.after}"
        recover = NOTE.format(phase="recover", log=self.log)
        self.config.write_text(
            f"[agent]\n"
            f'state = "{self.folder / "state"}"\n'
            f'endpoint = "{self.server.ready["metadata"][self.machine]}"\n'
            f"{self.extra}\n"
            f"[[rule]]\n"
            f"prepare = [{{ exec = ['sh', '-c', '{prepare}'] }}]\n"
            f"recover = [{{ exec = ['sh', '-c', '{recover}'] }}]\n"
        )

    def words(self, *words: str) -> list[str]:
        return [*AGENT, *words, "--config", str(self.config)]

    def run(self) -> None:
        """Start the agent and return once it has asked for events."""
        with (self.folder / "stderr").open("ab") as err:
            self.processes.append(subprocess.Popen(self.words("run"), stderr=err))
        until(
            lambda: self.log_text().count("machine_named") >= len(self.processes), "the agent knows its name"
        )

    def ask(self, word: str) -> str:
        return subprocess.run(self.words(word), capture_output=True, text=True, check=True, timeout=30).stdout

    def kill(self) -> None:
        self.processes[-1].kill()
        self.processes[-1].wait()

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                assert process.wait(20) == 0

    def log_text(self) -> str:
        path = self.folder / "stderr"
        return path.read_text() if path.exists() else ""

    def did(self, event: Shown) -> list[str]:
        """Return the phases of the hooks that ran for an event, in order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split()[0] for line in lines if line.split()[1] == event["id"]]

    def approvals(self, event: Shown) -> list[str]:
        """Return who approved an event."""
        rows = self.server.history()
        return [row["by"] for row in rows if row["kind"] == "approved" and row["event"] == event["id"]]

    def recovered(self, event: Shown) -> None:
        until(lambda: "recover" in self.did(event), f"{self.machine} recovers: {self.log_text()}")


def guest(
    server: Server, folder: Path, machine: str, stack: ExitStack, *, extra: str = "", after: str = ""
) -> Guest:
    started = Guest(server, folder / machine, machine, extra, after)
    started.write()
    stack.callback(started.stop)
    return started
