"""The ``fairwarning`` fixture for pytest.

pytest imports this module in every project that has the package installed, whether or not a test uses the
fixture. The module is therefore outside the package and imports nothing of it before the first use.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairwarning.testing import Fleet

_MARKER = (
    "fairwarning(scale_set=3, availability_set=2, vm='db', spot_vm='batch', polled=True, throttled=False): "
    "the machines that the fairwarning fixture creates before the test, and how its endpoints behave"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def fairwarning(request: pytest.FixtureRequest) -> Iterator["Fleet"]:
    """A fleet of this test's own, with a clock that moves only when the test moves it."""
    from fairwarning.testing import fleet

    # The marker closest to the test wins.
    markers = [*request.node.iter_markers("fairwarning")][::-1]
    if any(marker.args for marker in markers):
        raise pytest.UsageError(
            "the fairwarning marker takes keywords: @pytest.mark.fairwarning(scale_set=3)"
        )
    options = {name: value for marker in markers for name, value in marker.kwargs.items()}
    with fleet(**options) as new:
        yield new
