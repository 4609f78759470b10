"""A folder in which the commands of guides run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder in which every user may look."""
    with tempfile.TemporaryDirectory(prefix="fairwarning-guide-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
