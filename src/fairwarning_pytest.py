"""Gives pytest the ``fairwarning`` fixture.

pytest imports this module in every project that has the package installed, whether or not a test asks for the
fixture. So it stands beside the package, and brings in nothing of it until one does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairwarning.testing import Fleet

_MARKER = (
    "fairwarning(scale_set=3, availability_set=2, vm='db', spot_vm='batch', polled=True, throttled=False): "
    "what the fleet of the fairwarning fixture has before the test begins, and how it behaves"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def fairwarning(request: pytest.FixtureRequest) -> Iterator["Fleet"]:
    """Give a fleet of one's own with a clock that moves only when told to."""
    from fairwarning.testing import fleet

    # The marker nearest to the test has the last word.
    marks = [*request.node.iter_markers("fairwarning")][::-1]
    if any(mark.args for mark in marks):
        raise pytest.UsageError("the fairwarning marker takes names: @pytest.mark.fairwarning(scale_set=3)")
    wanted = {name: value for mark in marks for name, value in mark.kwargs.items()}
    with fleet(**wanted) as found:
        yield found
