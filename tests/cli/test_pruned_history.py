"""Who keeps a fleet decides how much of its history is kept, and is told where that begins."""

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
        told, listed = server.command("history"), server.history()

    assert "begins" not in whole.stderr
    assert "(older lines were pruned)" in told.stderr
    assert [row["type"] for row in listed] == ["Redeploy"]


@pytest.mark.parametrize("words", [("--keep-history-size", "5 potatoes"), ("--keep-history", "long")])
def test_a_history_that_cannot_be_kept_like_that_is_refused(words: tuple[str, str]) -> None:
    done = call("up", *words)

    assert done.code == 2
    assert "makes no sense here; write it like" in done.stderr
