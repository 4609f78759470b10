"""Keeps what collecting the tests has made out of the garbage collector's way.

Modules and tests are hundreds of thousands of objects that live as long as the session. Without this, each
full collection visits all of them.
"""

import gc

import pytest


class FrozenHeap:
    """Collects no garbage until the tests are collected, and never visits what there was by then."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        gc.disable()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        gc.collect()
        gc.freeze()
        gc.enable()
