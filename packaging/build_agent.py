"""Builds ``dist/fairwarning-agent.pyz``: the agent and what it imports, in one file for Python 3.11 or later.

    python3 packaging/build_agent.py [FILE]

The build is reproducible: the same sources give the same bytes.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "fairwarning"
TARGET = ROOT / "dist" / "fairwarning-agent.pyz"
MODULES = ("__init__.py", "service_manager.py")
PACKAGES = ("formats", "core", "agent")
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("fairwarning-agent: requires Python 3.11 or later, this is %s.%s" % sys.version_info[:2])

from fairwarning.agent.main import main

sys.exit(main())
"""


def sources() -> Iterator[Path]:
    """Yield the source files, in a fixed order."""
    yield from (PACKAGE / name for name in MODULES)
    for name in PACKAGES:
        yield from sorted((PACKAGE / name).rglob("*.py"))


def build(target: Path = TARGET) -> Path:
    """Write the file atomically and return its path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w") as archive:
            _add(archive, "__main__.py", MAIN.encode())
            for source in sources():
                _add(archive, str(source.relative_to(PACKAGE.parent)), source.read_bytes())
    temporary.chmod(0o755)
    return temporary.replace(target)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    sys.stdout.write(f"{build(*map(Path, sys.argv[1:2]))}\n")
