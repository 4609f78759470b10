"""What a test needs beyond Python is looked for; what is lacking is a reason to skip, or in CI to fail."""

import pytest

from tests.needs import SKIP_NOTHING, need


def test_what_is_there_lets_the_test_run() -> None:
    need("/")


@pytest.mark.parametrize("nothing", [pytest.param("", id="anywhere"), pytest.param("1", id="in CI")])
def test_what_is_lacking_skips_the_test_or_fails_it_in_ci(
    nothing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SKIP_NOTHING, nothing)

    with pytest.raises(
        pytest.fail.Exception if nothing else pytest.skip.Exception, match="needs no-such-program"
    ):
        need("no-such-program")
