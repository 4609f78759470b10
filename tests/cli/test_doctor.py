"""``doctor``: what is wrong, and how to fix it."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from tests.cli.server import Server, call, up

CHECKED = ("python", "server", "clock", "endpoints", "guests", "data", "database")


def test_a_working_setup_is_ok(bare: Server, tmp_path: Path) -> None:
    done = bare.command("doctor", "--data", str(tmp_path / "state"), "--json")

    verdicts = {finding["about"]: finding["verdict"] for finding in json.loads(done.stdout)}
    assert done.code == 0
    assert verdicts == dict.fromkeys(CHECKED, "ok")


def test_scopes_that_are_not_polled_and_a_manual_clock_are_noted(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--clock", "manual") as server:
        done = server.command("doctor")

    assert done.code == 0
    assert "not polled: db" in done.stdout
    assert "hint: the clock is manual; to move it: fairwarning clock advance 15m\n" in done.stderr


def test_a_missing_server_is_wrong_and_a_hint_says_how_to_start_one() -> None:
    done = call("doctor")

    assert done.code == 1
    assert "wrong    no server answers at http://127.0.0.1:1" in done.stdout
    assert "127.0.0.1:1 is free" in done.stdout
    assert "hint: start one with: fairwarning up\n" in done.stderr


def test_another_program_on_the_port_is_wrong() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as stranger:
        threading.Thread(target=stranger.handle_request, daemon=True).start()
        done = call("doctor", url=f"http://127.0.0.1:{stranger.server_port}")

    assert done.code == 1
    assert "answers 501, which is not an answer of fairwarning" in done.stdout
    assert "hint: set FAIRWARNING_URL to the address that fairwarning up printed\n" in done.stderr


def test_a_port_without_answers_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        threading.Thread(target=lambda: stranger.accept()[0].close(), daemon=True).start()
        done = call("doctor", url=f"http://{address}")

    assert done.code == 1
    assert f"{address} is in use" in done.stdout


def test_a_data_directory_that_cannot_be_written_is_wrong(bare: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = bare.command("doctor", "--data", str(tmp_path / "file" / "data"))

    assert done.code == 1
    assert "hint: choose a directory that you may write to\n" in done.stderr
