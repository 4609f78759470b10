"""Fixtures of tests that talk to a server of guests."""

import sys
from collections.abc import Iterator

import pytest

from tests.http1 import wire


@pytest.fixture(
    params=[
        pytest.param(
            False, id="epoll", marks=pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
        ),
        pytest.param(True, id="portable"),
    ]
)
def lines(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let servers use one kind of lines, then the other."""
    wire.PORTABLE[0] = request.param
    yield
    wire.PORTABLE[0] = False
