"""The ``fairwarning`` fixture for pytest.

pytest imports this module in every project that has the package installed, whether or not a test uses the
fixture. The module is therefore outside the package and imports nothing of it before the first use.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from inspect import signature
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
    from fairwarning.core.errors import FairWarningError
    from fairwarning.formats.suggestions import did_you_mean
    from fairwarning.testing import fleet

    # The marker closest to the test wins.
    markers = [*request.node.iter_markers("fairwarning")][::-1]
    if any(marker.args for marker in markers):
        raise _refusal(" takes keywords: @pytest.mark.fairwarning(scale_set=3)")
    options = {name: value for marker in markers for name, value in marker.kwargs.items()}
    keywords = signature(fleet).parameters
    for unknown in options.keys() - keywords.keys():
        suggestion = did_you_mean(unknown, keywords)
        raise _refusal(f" has no keyword {unknown}{suggestion}; its keywords are {', '.join(keywords)}")
    with ExitStack() as stack:
        try:
            new = stack.enter_context(fleet(**options))
        except FairWarningError as problem:
            raise _refusal(f": {problem}") from None
        yield new


def _refusal(problem: str) -> BaseException:
    """Return a failure without frames: the marker is in none."""
    return pytest.fail.Exception(f"the fairwarning marker{problem}", pytrace=False)
