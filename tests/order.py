"""Runs the longest test files first, so that no worker starts one of them at the end."""

import pytest

LONGEST = (
    "docs/test_readme.py",
    "cluster/test_chaos.py",
    "browser/test_pages.py",
    "browser/test_story.py",
    "agent/test_end_to_end.py",
    "agent/test_faulty_server.py",
    "browser/test_large_map.py",
    "cli/test_demo.py",
    "check/test_guide.py",
    "check/test_unsafe_handlers.py",
    "check/test_check.py",
    "sandbox/test_forbidden.py",
    "sandbox/test_clients.py",
    "cli/test_fleet.py",
    "cli/test_up.py",
    "cli/test_handler.py",
    "arm/test_sdk.py",
    "sandbox/test_supervise.py",
    "arm/test_wrong_input.py",
    "arm/test_validation.py",
    "plugin/test_plugin.py",
    "tests/test_listener.py",
    "deciders/test_histories.py",
    "deciders/test_traps.py",
    "store/test_postgres_failures.py",
)


class LongestFirst:
    """Moves the tests of these files to the front, after pytest-randomly has shuffled."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        ranks = {file: rank for rank, file in enumerate(LONGEST)}
        items.sort(key=lambda item: ranks.get("/".join(item.path.parts[-2:]), len(LONGEST)))
