"""Fixtures of the tests with the real az: az itself, and a server that az is logged in to."""

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arm.live import Live, live
from tests.az.tool import Az, Trap, login, trap

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "azure-cli"
FLEET = ("--scale-set", "web=2", "--scale-set", "pond=2", "--vm", "db", "--vm", "quiet", "--spot-vm", "batch")
#: The one request that az sends elsewhere, in a new configuration: for a newer az. It gets no response.
NEWER = "CONNECT azcliprod.blob.core.windows.net:443 HTTP/1.0"


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the folder of az, which is installed once per set of versions."""
    wanted = HERE / "clients.txt"
    home = CACHE / hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]
    python = str(home / "bin" / "python")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            # uv installs many times faster than pip.
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-input", "uv"], check=True)
            install = ["pip", "install", "--quiet", "--no-deps", "--requirement", str(wanted)]
            if subprocess.run([python, "-m", "uv", *install, "--python", python]).returncode:
                # pip may be configured with a mirror that uv does not know.
                subprocess.run([python, "-m", *install, "--no-input"], check=True)
            (home / "complete").touch()
    return home / "bin"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Trap]:
    """Run a proxy that records connections to other machines."""
    with trap() as proxy:
        yield proxy
        assert set(proxy.called) <= {NEWER}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("cloud"), *FLEET) as server:
        yield server


@pytest.fixture(scope="module")
def az(cloud: Live, tmp_path_factory: pytest.TempPathFactory, programs: Path, proxy: Trap) -> Az:
    return login(cloud, tmp_path_factory.mktemp("home"), programs, proxy)
