"""``doctor``: what is wrong, and how to fix it."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from tests.cli.server import Server, call, up

CHECKED = ("python", "server", "clock", "endpoints", "guests", "data", "database")


def test_a_set_up_that_works_is_found_to_work(bare: Server, tmp_path: Path) -> None:
    done = bare.command("doctor", "--data", str(tmp_path / "state"), "--json")

    verdicts = {finding["about"]: finding["verdict"] for finding in json.loads(done.stdout)}
    assert done.code == 0
    assert verdicts == dict.fromkeys(CHECKED, "ok")


def test_scopes_that_nobody_polls_and_a_clock_that_stands_are_worth_a_note(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--clock", "manual") as server:
        done = server.command("doctor")

    assert done.code == 0
    assert "nobody polls db" in done.stdout
    assert "hint: the clock stands still until: fairwarning clock advance 15m\n" in done.stderr


def test_no_server_is_wrong_and_the_way_to_start_one_is_told() -> None:
    done = call("doctor")

    assert done.code == 1
    assert "wrong    no server answers at http://127.0.0.1:1" in done.stdout
    assert "127.0.0.1:1 is free" in done.stdout
    assert "hint: start one with: fairwarning up\n" in done.stderr


def test_a_stranger_on_the_port_is_wrong() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as stranger:
        threading.Thread(target=stranger.handle_request, daemon=True).start()
        done = call("doctor", url=f"http://127.0.0.1:{stranger.server_port}")

    assert done.code == 1
    assert "answers 501, not as fairwarning does" in done.stdout
    assert "hint: set FAIRWARNING_URL to the address that fairwarning up printed\n" in done.stderr


def test_a_port_that_answers_nothing_is_taken_by_somebody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        threading.Thread(target=lambda: stranger.accept()[0].close(), daemon=True).start()
        done = call("doctor", url=f"http://{address}")

    assert done.code == 1
    assert f"{address} is taken" in done.stdout


def test_a_data_directory_that_cannot_be_written_is_wrong(bare: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = bare.command("doctor", "--data", str(tmp_path / "file" / "data"))

    assert done.code == 1
    assert "hint: choose a directory that you may write to\n" in done.stderr
