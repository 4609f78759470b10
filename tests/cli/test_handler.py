"""The example handler works as it stands."""

import subprocess
import sys
from pathlib import Path

from tests.cli.server import until, up

HANDLER = Path(__file__).parents[2] / "examples" / "handler.py"


def test_the_example_handler_drains_approves_and_sees_the_event_go(tmp_path: Path) -> None:
    printed = tmp_path / "handler.out"
    with up(tmp_path, "--scale-set", "web=2") as server, printed.open("wb") as out:
        endpoint = server.ready["metadata"]["web_0"]
        handler = subprocess.Popen([sys.executable, "-W", "error", str(HANDLER), endpoint], stdout=out)
        try:
            until(lambda: "nobody polls" not in server.tell("vms"), "the handler polls")
            (event,) = server.cause("restart", "web_0")
            until(lambda: "is gone" in printed.read_text(), "the handler sees the event go")
        finally:
            handler.kill()
            handler.wait()
        rows = server.history()

    assert printed.read_text().splitlines() == [
        f"web_0: Scheduled Reboot {event['id']}",
        "web_0: draining",
        f"web_0: Started Reboot {event['id']}",
        f"web_0: Started Reboot {event['id']} is gone",
    ]
    assert [(row["kind"], row["by"]) for row in rows[:2]] == [
        ("scheduled", "operator"), ("approved", "web_0")
    ]  # fmt: skip


def test_the_example_handler_waits_for_a_server_that_is_not_there_yet(tmp_path: Path) -> None:
    said = tmp_path / "handler.err"
    with said.open("wb") as err:
        handler = subprocess.Popen([sys.executable, str(HANDLER), "http://127.0.0.1:1"], stderr=err)
    try:
        until(lambda: said.read_text().count("trying again") >= 2, "the handler tries twice")
        alive = handler.poll() is None
    finally:
        handler.kill()
        handler.wait()

    assert alive
