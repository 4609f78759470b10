"""What the agent costs a machine that nothing happens to: memory, and CPU at one poll a second."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import scheduler_seconds
from bench.references import quiet
from bench.report import Figure, Section
from bench.servers import ROOT, Server, process

_READING = "What every machine of a fleet pays for having an agent."
_NOTES = ("The one-file agent against a server that knows no long poll, so it asks once a second.",)


@dataclass(frozen=True, slots=True)
class Rest:
    """What one agent at rest used."""

    memory: float
    cpu: float


def suite(rounds: int, seconds: float) -> Section:
    """Let an agent rest for some seconds, some times."""
    found: list[Rest] = []
    with tempfile.TemporaryDirectory() as folder, quiet("http.server") as server:
        program = Path(folder, "agent.pyz")
        subprocess.run(
            ["python3", ROOT / "packaging" / "build_agent.py", program], check=True, capture_output=True
        )
        for number in range(rounds):
            found.append(_rest(program, server, Path(folder, str(number)), seconds))
    return section(found)


def section(found: Sequence[Rest]) -> Section:
    """Return what some rests show."""
    memory, cpu = tuple(one.memory for one in found), tuple(one.cpu for one in found)
    figures = (
        Figure(name="agent at rest, memory", unit="MB", values=memory, goal="G21a"),
        Figure(name="agent at rest, CPU", unit="% of a core", values=cpu, goal="G21b"),
    )
    return Section(
        title="agent: what it costs while nothing happens",
        reading=_READING,
        claims=(),
        figures=figures,
        notes=_NOTES,
    )


def _rest(program: Path, server: Server, state: Path, seconds: float) -> Rest:
    host, port = server.address
    words = ("run", "--endpoint", f"http://{host}:{port}", "--state", str(state))
    with process(["python3", "-I", str(program), *words]) as agent:
        time.sleep(5.0)  # it starts, finds its endpoint and polls for the first time
        begun = scheduler_seconds(agent.pid)
        time.sleep(seconds)
        spent = scheduler_seconds(agent.pid) - begun
        status = Path(f"/proc/{agent.pid}/status").read_text()
    (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return Rest(resident / 1000, spent / seconds * 100)
