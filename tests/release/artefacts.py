"""Builds artefacts of a release for tests."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(dist: Path, *names: str) -> None:
    """Build artefacts into a folder."""
    command = [sys.executable, "-m", "tools.release", *names, "--dist", str(dist)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
