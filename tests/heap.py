"""Keeps what collecting the tests has made out of the garbage collector's way.

Modules and tests are hundreds of thousands of objects that live as long as the session. Without this, each
full collection visits all of them.
"""

import gc
from collections.abc import Generator

import pytest


class FrozenHeap:
    """Collects no garbage until the tests are collected, and never visits the objects that exist by then."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        gc.disable()
        try:
            return (yield)
        finally:
            gc.collect()
            gc.freeze()
            gc.enable()
