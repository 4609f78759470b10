"""The example handler works as it stands."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.server import until, up

HANDLER = Path(__file__).parents[2] / "examples" / "safe_handler.py"


def remembering_in(folder: Path) -> dict[str, str]:
    return {**os.environ, "FAIRWARNING_WORK": str(folder)}


def test_the_example_handler_drains_approves_and_sees_the_event_go(tmp_path: Path) -> None:
    printed = tmp_path / "handler.out"
    with up(tmp_path, "--scale-set", "web=2") as server, printed.open("wb") as out:
        endpoint = server.ready["metadata"]["web_0"]
        command = [sys.executable, "-W", "error", str(HANDLER), endpoint]
        handler = subprocess.Popen(command, stdout=out, env=remembering_in(tmp_path))
        try:
            until(lambda: "nobody polls" not in server.tell("vms"), "the handler polls")
            (event,) = server.cause("restart", "web_0")
            until(lambda: "back to work" in printed.read_text(), "the handler sees the event go")
        finally:
            handler.kill()
            handler.wait()
        rows = server.history()

    assert printed.read_text().splitlines() == [
        f"web_0: draining ({event['id']})",
        f"web_0: back to work ({event['id']})",
    ]
    assert [(row["kind"], row["by"]) for row in rows[:2]] == [
        ("scheduled", "operator"), ("approved", "web_0")
    ]  # fmt: skip


def test_the_example_handler_waits_for_a_server_that_is_not_there_yet(tmp_path: Path) -> None:
    said = tmp_path / "handler.err"
    with said.open("wb") as err:
        command = [sys.executable, str(HANDLER), "http://127.0.0.1:1"]
        handler = subprocess.Popen(command, stderr=err, env=remembering_in(tmp_path))
    try:
        until(lambda: said.read_text().count("trying again") >= 2, "the handler tries twice")
        alive = handler.poll() is None
    finally:
        handler.kill()
        handler.wait()

    assert alive
