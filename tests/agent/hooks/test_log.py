"""The log hook writes a line."""

import logging

import pytest

from fairwarning.agent.hooks import parse
from tests.agent.hooks.contexts import EVENT, noon, prepare


def test_the_line_is_logged_with_the_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fairwarning.agent")

    outcome = parse({"log": "going away soon"}).run(prepare(), None, noon)

    assert outcome.ok
    assert caplog.messages == [f"going away soon (Reboot, prepare of event {EVENT.id})"]
