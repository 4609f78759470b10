"""How much history is kept, and where it begins."""

from pathlib import Path

import pytest

from tests.cli.server import call, until, up

USUAL = ("--clock", "manual", "--start-enabled", "--vm", "db", "--data")


def test_the_history_says_where_it_begins(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with up(tmp_path, *USUAL, data) as server:
        server.cause("restart", "db")
        server.tell("clock", "advance", "1h")
        whole = server.command("history")
        server.cause("redeploy", "db")
        server.stop()
    with up(tmp_path, *USUAL, data, "--keep-history", "0s") as server:
        until(lambda: "history begins at" in server.command("history").stderr, "the history is pruned")
        printed, listed = server.command("history"), server.history()

    assert "begins" not in whole.stderr
    assert "(older lines were pruned)" in printed.stderr
    assert [row["type"] for row in listed] == ["Redeploy"]


@pytest.mark.parametrize("words", [("--keep-history-size", "5 potatoes"), ("--keep-history", "long")])
def test_invalid_limits_of_the_history_are_refused(words: tuple[str, str]) -> None:
    done = call("up", *words)

    assert done.code == 2
    assert "(expected e.g. " in done.stderr
