"""The examples work as they are."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.scripted import Answer, endpoint
from tests.cli.server import until, up

HANDLER = Path(__file__).parents[2] / "examples" / "safe_handler.py"


def remembering_in(folder: Path) -> dict[str, str]:
    return {**os.environ, "FAIRWARNING_WORK": str(folder)}


@pytest.mark.slow
def test_the_example_handler_drains_approves_and_sees_the_event_go(tmp_path: Path) -> None:
    printed = tmp_path / "handler.out"
    with up(tmp_path, "--scale-set", "web=2") as server, printed.open("wb") as out:
        endpoint = server.ready["metadata"]["web_0"]
        command = [sys.executable, "-W", "error", str(HANDLER), endpoint]
        handler = subprocess.Popen(command, stdout=out, env=remembering_in(tmp_path))
        try:
            until(lambda: "not polled" not in server.tell("vms"), "the handler polls")
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


def test_the_example_handler_waits_for_the_server_to_start(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["safe_handler.py", "embed.py"])
def test_an_example_ends_quietly_on_ctrl_c(tmp_path: Path, name: str) -> None:
    with endpoint(Answer()) as script:
        command = [sys.executable, "-W", "error", str(HANDLER.with_name(name)), script.url]
        program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=remembering_in(tmp_path))
        until(lambda: bool(script.asked), "the example polls")
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=20)

    assert program.returncode == 130
    assert "Traceback" not in said


def test_the_unsafe_example_ends_quietly_on_ctrl_c() -> None:
    # The address of its endpoint is fixed, so the first request is replaced by an interrupt.
    path = str(HANDLER.with_name("unsafe_handler.py"))
    code = (
        "import os, runpy, signal, urllib.request; "
        "urllib.request.urlopen = lambda _: os.kill(os.getpid(), signal.SIGINT); "
        f"runpy.run_path({path!r})"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (130, "")
