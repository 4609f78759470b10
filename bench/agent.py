"""The cost of an idle agent: memory, and CPU at one poll a second."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import scheduler_seconds
from bench.references import without_events
from bench.report import Figure, Section
from bench.servers import ROOT, Server, process

_READING = "The cost of an agent on each machine of a fleet."
_NOTES = ("The one-file agent against a server without long polls, so it polls once a second.",)


@dataclass(frozen=True, slots=True)
class IdleAgent:
    """The memory and CPU of an idle agent."""

    memory: float
    cpu: float


def suite(rounds: int, seconds: float) -> Section:
    """Measure an idle agent for some seconds, in several rounds."""
    agents: list[IdleAgent] = []
    with tempfile.TemporaryDirectory() as folder, without_events("http.server") as server:
        program = Path(folder, "agent.pyz")
        subprocess.run(
            ["python3", ROOT / "packaging" / "build_agent.py", program], check=True, capture_output=True
        )
        for number in range(rounds):
            agents.append(_measure(program, server, Path(folder, str(number)), seconds))
    return section(agents)


def section(agents: Sequence[IdleAgent]) -> Section:
    """Return the section of the report."""
    memory, cpu = tuple(agent.memory for agent in agents), tuple(agent.cpu for agent in agents)
    figures = (
        Figure(name="agent at rest, memory", unit="MB", values=memory, goal="G21a"),
        Figure(name="agent at rest, CPU", unit="% of a core", values=cpu, goal="G21b"),
    )
    return Section(
        title="agent: the cost of an idle agent",
        reading=_READING,
        claims=(),
        figures=figures,
        notes=_NOTES,
    )


def _measure(program: Path, server: Server, state: Path, seconds: float) -> IdleAgent:
    host, port = server.address
    words = ("run", "--endpoint", f"http://{host}:{port}", "--state", str(state))
    with process(["python3", "-I", str(program), *words]) as agent:
        time.sleep(5.0)  # the agent starts, finds its endpoint and polls for the first time
        begun = scheduler_seconds(agent.pid)
        time.sleep(seconds)
        spent = scheduler_seconds(agent.pid) - begun
        status = Path(f"/proc/{agent.pid}/status").read_text()
    (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return IdleAgent(resident / 1000, spent / seconds * 100)
