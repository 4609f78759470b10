"""A server whose machines programs are put on; skips where the kernel of the test machine forbids a mode."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.server import up
from tests.needs import lack, need
from tests.sandbox.programs import C, Exec


@pytest.fixture(scope="module")
def anywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exec]:
    """Give ``exec``, whether or not its modes are allowed here."""
    with up(tmp_path_factory.mktemp("sandbox"), "--scale-set", "web=2") as server:
        yield Exec(operator=server.ready["operator"])


@pytest.fixture(scope="module")
def redirecting(anywhere: Exec) -> Exec:
    """Give ``exec`` where its default mode is allowed."""
    tried = anywhere.run("true")
    if "this machine does not allow" in tried.stderr:
        lack(tried.stderr.strip())
    return anywhere


@pytest.fixture(scope="module")
def isolating(anywhere: Exec) -> Exec:
    """Give ``exec`` where ``--isolate`` is allowed."""
    tried = anywhere.run("true", isolate=True)
    if "this machine does not allow" in tried.stderr:
        lack(tried.stderr.strip())
    return anywhere


@pytest.fixture
def shelf() -> Iterator[Path]:
    """Give a directory that every user may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def static(shelf: Path) -> Path:
    """Give a program without a C library to hook into."""
    need("gcc", "/usr/include/stdio.h")
    (shelf / "ask.c").write_text(C)
    built = subprocess.run(
        ["gcc", "-static", "-o", shelf / "ask", shelf / "ask.c"], capture_output=True, text=True
    )
    if built.returncode != 0:
        lack(f"gcc links nothing statically here: {built.stderr}")
    (shelf / "ask").chmod(0o755)
    return shelf / "ask"
