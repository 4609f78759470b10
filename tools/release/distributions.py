"""The distributions for Python: the sdist, and the wheel, which is built from the sdist."""

import shutil
import tempfile
from pathlib import Path

from tools.environments import environment
from tools.release import Release
from tools.release.programs import run

_PROGRAMS = Path(__file__).with_name("distributions.txt")


def build_sdist(release: Release) -> list[Path]:
    """Build the sdist."""
    return [_build(release, "*.tar.gz", "--sdist")]


def build_wheel(release: Release) -> list[Path]:
    """Build an sdist, and the wheel from it."""
    return [_build(release, "*.whl")]


def _build(release: Release, pattern: str, *options: str) -> Path:
    programs = environment(_PROGRAMS)
    with tempfile.TemporaryDirectory() as scratch:
        run(release, [programs / "python", "-m", "build", "--no-isolation", "--outdir", scratch, *options])
        (distribution,) = Path(scratch).glob(pattern)
        run(release, [programs / "twine", "check", "--strict", distribution])
        return Path(shutil.copyfile(distribution, release.dist / distribution.name))
