"""Messages go through ``apprise``; a stand-in records how it is called."""

from pathlib import Path

import pytest

from fairwarning.agent.hooks import parse
from tests.agent.hooks.contexts import noon, path_with, prepare, recover, stand_in

URL = "mailto://user:secret@example.com"


def test_apprise_is_given_a_title_a_body_and_the_addresses(tmp_path: Path) -> None:
    calls = stand_in(tmp_path, "apprise", "exit 0")
    hook = parse({"notify": {"urls": [URL], "config": "/etc/apprise.yml"}}, path_with(tmp_path))

    outcome = hook.run(prepare(), None, noon)

    assert outcome.ok
    first, *lines, last = calls()
    assert first.startswith("--title web_0 prepares for Reboot --body event: 602d9444")
    assert "not before: 2026-11-16T12:15:00+00:00" in lines
    assert last.endswith(f"--config /etc/apprise.yml -- {URL}")


def test_the_end_of_the_event_has_a_title_of_its_own(tmp_path: Path) -> None:
    calls = stand_in(tmp_path, "apprise", "exit 0")

    parse({"notify": {"urls": [URL]}}, path_with(tmp_path)).run(recover(), None, noon)

    assert calls()[0].startswith("--title web_0 is back from Reboot")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        pytest.param(None, "program apprise not found", id="apprise is not installed"),
        pytest.param("echo unreachable; exit 1", "apprise exits 1: unreachable", id="apprise fails"),
    ],
)
@pytest.mark.parametrize(
    "required", [pytest.param(True, id="required"), pytest.param(False, id="not required")]
)
def test_silence_holds_the_approval_only_if_telling_is_required(
    script: str | None, problem: str, required: bool, tmp_path: Path
) -> None:
    if script:
        stand_in(tmp_path, "apprise", script)
    environment = path_with(tmp_path) if script else {"PATH": str(tmp_path)}
    hook = parse({"notify": {"urls": [URL], "required": required}}, environment)

    outcome = hook.run(prepare(), None, noon)

    assert outcome.ok is not required
    assert outcome.message == f"notification failed: {problem}"


def test_addresses_are_never_shown() -> None:
    assert "secret" not in parse({"notify": {"urls": [URL]}}).describe()
