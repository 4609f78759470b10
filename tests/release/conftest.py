"""The artefacts of this checkout, built once for all tests that install them."""

from pathlib import Path

import pytest

from tests.release.artefacts import build


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build wheel, sdist and agent as a release does."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder, "sdist", "wheel", "agent")
    return folder


@pytest.fixture(scope="session")
def agent_deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the Debian package of the agent."""
    folder = tmp_path_factory.mktemp("agent-deb")
    build(folder, "agent", "manuals", "agent-deb")
    (package,) = folder.glob("*.deb")
    return package


@pytest.fixture(scope="session")
def server_deb(dist: Path) -> Path:
    """Build the Debian package of the server."""
    build(dist, "manuals", "completions", "server-deb")
    (package,) = dist.glob("fairwarning_*.deb")
    return package
