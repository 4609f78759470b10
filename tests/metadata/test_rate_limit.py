"""How many requests a machine may make."""

import pytest

from fairwarning.core.policy import Profile
from fairwarning.http1.throttle import Bucket, Rate

USUAL = Rate(Profile().requests_per_second, Profile().burst)


@pytest.mark.rule("R-10")
@pytest.mark.parametrize(
    ("instants", "admitted"),
    [
        pytest.param([100.0] * 6, [True] * 5 + [False], id="five at once and no more"),
        pytest.param([100.0 + 0.2 * n for n in range(50)], [True] * 50, id="five a second for ever"),
        pytest.param([100.0] * 5 + [100.1, 100.25], [True] * 5 + [False, True], id="again after a fifth"),
        pytest.param([100.0] * 5 + [900.0] * 6, [True] * 10 + [False], id="rest is not saved up"),
        pytest.param(
            [100.0] * 5 + [100.0 + 0.01 * n for n in range(1, 22)],
            [True] * 5 + [False] * 19 + [True] + [False],
            id="asking too soon costs nothing",
        ),
    ],
)
def test_a_bucket_gives_tokens(instants: list[float], admitted: list[bool]) -> None:
    bucket = Bucket(USUAL)

    assert [bucket.take(instant) for instant in instants] == admitted
