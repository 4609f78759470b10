"""However few descriptors there are, no API and no guest takes them all."""

import resource
import subprocess
import sys

import pytest

from fairwarning.http1.limits import share_descriptors


@pytest.mark.parametrize("descriptors", [256, 1024, 20_000, 65_536])
def test_nobody_can_take_the_connections_of_another(descriptors: int) -> None:
    shares = share_descriptors(descriptors)

    assert shares.guests.connections + shares.operator + shares.management <= descriptors - 100
    assert shares.guests.connections >= descriptors // 4
    assert shares.operator > shares.management > 0


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 20_000])
def test_no_guest_takes_what_all_share(descriptors: int) -> None:
    limits = share_descriptors(descriptors).guests

    assert 1 <= limits.per_caller <= limits.connections // 8
    assert limits.per_caller <= 64


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 20_000])
def test_those_who_wait_leave_connections_to_those_who_ask(descriptors: int) -> None:
    limits = share_descriptors(descriptors).guests

    assert 1 <= limits.held_responses < limits.connections


def test_as_many_descriptors_are_asked_for_as_we_may_have() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (100, r.getrlimit(r.RLIMIT_NOFILE)[1])); "
    code = (
        few
        + "from fairwarning.http1.limits import raise_descriptor_limit as a; print(a(), r.getrlimit(7)[0])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    returned, actual = map(int, done.stdout.split())
    assert returned == actual
    assert returned == (65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536))
