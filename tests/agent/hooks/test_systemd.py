"""Units are stopped and started; ``systemctl`` is a stand-in that records how it is called.

No systemd runs where these tests do, so what systemd itself makes of the calls is not tested here.
"""

from pathlib import Path

import pytest

from fairwarning.agent.hooks import parse
from tests.agent.hooks.contexts import in_seconds, noon, path_with, prepare, recover, stand_in


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        pytest.param("stop", "stopped nginx.service, worker.service", id="stop"),
        pytest.param("start", "started nginx.service, worker.service", id="start"),
    ],
)
def test_all_units_are_handed_to_systemctl_at_once(verb: str, message: str, tmp_path: Path) -> None:
    calls = stand_in(tmp_path, "systemctl", "exit 0")
    hook = parse({"systemd": {verb: ["nginx.service", "worker.service"]}}, path_with(tmp_path))

    outcome = hook.run(prepare(), None, noon)

    assert outcome.ok
    assert outcome.message == message
    assert calls() == [f"{verb} -- nginx.service worker.service"]


def test_what_systemctl_refuses_is_a_failure_in_its_words(tmp_path: Path) -> None:
    stand_in(tmp_path, "systemctl", "echo 'Unit x.service not loaded.' >&2; exit 5")
    hook = parse({"systemd": {"stop": ["x.service"]}}, path_with(tmp_path))

    outcome = hook.run(prepare(), None, noon)

    assert not outcome.ok
    assert outcome.message == "systemctl exits 5: Unit x.service not loaded."


def test_a_unit_that_does_not_stop_in_time_is_a_failure(tmp_path: Path) -> None:
    stand_in(tmp_path, "systemctl", "exec sleep 300")
    hook = parse({"systemd": {"stop": ["slow.service"]}}, path_with(tmp_path))

    outcome = hook.run(prepare(deadline=in_seconds(1)), None, noon)

    assert not outcome.ok
    assert "systemctl was stopped after" in outcome.message


def test_doing_it_twice_asks_for_the_same_twice(tmp_path: Path) -> None:
    calls = stand_in(tmp_path, "systemctl", "exit 0")
    hook = parse({"systemd": {"start": ["nginx.service"]}}, path_with(tmp_path))

    first, second = hook.run(recover(), None, noon), hook.run(recover(), None, noon)

    assert first == second
    assert len(set(calls())) == 1
