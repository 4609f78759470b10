"""A server for programs under ``exec``; tests skip where the kernel forbids a mode."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.server import up
from tests.needs import lack, need
from tests.sandbox.programs import C, Exec


@pytest.fixture(scope="session")
def unchecked_exec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exec]:
    """Yield ``exec``, whether or not its modes are allowed here."""
    with up(tmp_path_factory.mktemp("sandbox"), "--scale-set", "web=2", "--arm-names") as server:
        yield Exec(operator=server.ready["operator"])


@pytest.fixture(scope="session")
def redirecting(unchecked_exec: Exec) -> Exec:
    """Return ``exec`` where its default mode is allowed."""
    tried = unchecked_exec.run("true")
    if "this machine does not allow" in tried.stderr:
        lack(tried.stderr.strip())
    return unchecked_exec


@pytest.fixture(scope="session")
def isolating(unchecked_exec: Exec) -> Exec:
    """Return ``exec`` where ``--isolate`` is allowed."""
    tried = unchecked_exec.run("true", isolate=True)
    if "this machine does not allow" in tried.stderr:
        lack(tried.stderr.strip())
    return unchecked_exec


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """Yield a directory that every user may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def static(public_directory: Path) -> Path:
    """Return a program without a C library to hook into."""
    need("gcc", "/usr/include/stdio.h")
    (public_directory / "ask.c").write_text(C)
    built = subprocess.run(
        ["gcc", "-static", "-o", public_directory / "ask", public_directory / "ask.c"],
        capture_output=True,
        text=True,
    )
    if built.returncode != 0:
        lack(f"gcc links nothing statically here: {built.stderr}")
    (public_directory / "ask").chmod(0o755)
    return public_directory / "ask"
