"""An empty resource group for every test of this room."""

import pytest

from tests.arm.cloud import Cloud


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()
