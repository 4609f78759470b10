"""Fixtures and hooks of all tests, and the check that tests name existing rules only."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

from tests.counting import Counting
from tests.heap import FrozenHeap
from tests.needs import SKIP_NOTHING, need
from tests.order import LongestFirst
from tests.pages import CommandsAreRun

RULES = Path(__file__).parent.parent / "docs" / "rules.md"
#: The marks that keep a test out of the default suite.
LONG = frozenset({"slow", "full", "netns", "az"})
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)

# No deadlines: properties must not fail on a busy machine. CI repeats the same examples.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") or os.environ.get(SKIP_NOTHING) else "local")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist runs only some of the tests
        config.pluginmanager.register(Counting())
    config.pluginmanager.register(FrozenHeap())
    config.pluginmanager.register(LongestFirst())
    config.pluginmanager.register(CommandsAreRun())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    stated = {rule for item in items for mark in item.iter_markers("rule") for rule in mark.args}
    known = set(re.findall(r"^\| ([A-Z]-\d+a?) \|", RULES.read_text(), re.MULTILINE))
    if unknown := stated - known:
        raise pytest.UsageError(f"tests name rules that docs/rules.md lacks: {sorted(unknown)}")
    marks = {item.nodeid: {mark.name for mark in item.iter_markers()} for item in items}
    # A story of the default suite would run twice in .ci/run, and be retried.
    if lone := [name for name, own in marks.items() if "story" in own and own.isdisjoint(LONG)]:
        raise pytest.UsageError(f"a story needs another mark ({', '.join(sorted(LONG))}): {lone}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    need(*(tool for mark in item.iter_markers("needs") for tool in mark.args))


@pytest.fixture
def noon() -> datetime:
    return NOON
