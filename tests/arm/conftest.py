"""An empty resource group for every test."""

import pytest

from tests.arm.cloud import Cloud


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()
