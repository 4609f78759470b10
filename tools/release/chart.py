"""The Helm chart of the agent.

The chart in ``packaging/chart`` has no version; the archive has that of the package, as semantic versioning
writes it. ``appVersion`` is the version itself, because the tag of the image is. helm is not needed to build:
its own archives contain the time at which they were made.
"""

import re
from pathlib import Path

from tools.release import ROOT, Release
from tools.release.archives import write_archive

NAME = "fairwarning-agent"
FOLDER = ROOT / "packaging" / "chart"
UNSET = "0.0.0"


def build(release: Release) -> list[Path]:
    """Write the archive that ``helm install`` takes."""
    version = semantic(release.version)
    files = {
        f"{NAME}/{path.relative_to(FOLDER)}": path.read_text() for path in FOLDER.rglob("*") if path.is_file()
    }
    chart = f"{NAME}/Chart.yaml"
    for key, value in {"version": version, "appVersion": f'"{release.version}"'}.items():
        files[chart] = files[chart].replace(f"\n{key}: {UNSET}\n", f"\n{key}: {value}\n")
    files[f"{NAME}/LICENSE"] = (ROOT / "LICENSE").read_text()
    return [write_archive(release, f"{NAME}-{version}.tgz", files)]


def semantic(version: str) -> str:
    """Return a version of Python's as semantic versioning writes it: ``0.2.0.dev0`` is ``0.2.0-dev.0``."""
    return re.sub(r"\.?(a|b|rc|dev)(\d+)$", r"-\1.\2", version)
