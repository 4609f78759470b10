"""The agent in one file."""

from pathlib import Path

from tools.release import ROOT, Release
from tools.release.programs import program, run


def build(release: Release) -> list[Path]:
    """Build the file with the script that users run, too."""
    target = release.dist / "fairwarning-agent.pyz"
    run(release, [program("python3"), ROOT / "packaging" / "build_agent.py", target])
    return [target]
