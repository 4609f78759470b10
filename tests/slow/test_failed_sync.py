"""A server whose disk fails reports it, confirms nothing uncertain, and continues once the disk works."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.server import Server, up
from tests.needs import lack

FREEZE = json.dumps({"cause": "freeze", "machines": ["db"], "notice": "2d"}).encode()


def ask(server: Server, path: str, body: bytes | None = None) -> tuple[int, str]:
    request = urllib.request.Request(server.ready["operator"] + path, body)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def events(server: Server) -> int:
    return ask(server, "/fleet/v1/events")[1].count('"id"')


@contextmanager
def failing_syncs(server: Server) -> Iterator[None]:
    """Let every fdatasync of a server fail during the block."""
    inject = ("-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO")
    words = ["strace", "-f", "-p", str(server.process.pid), *inject]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        try:
            said = tracer.stderr.readline()
            if "attached" not in said:
                lack(f"strace may not attach: {said}")
            yield
        finally:
            tracer.terminate()
            tracer.stderr.read()


@pytest.mark.slow
@pytest.mark.needs("strace")
@pytest.mark.rule("R-12")
def test_a_server_whose_syncs_fail_promises_nothing_and_recovers_by_itself(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--start-enabled", "--data", str(tmp_path / "state")) as server:
        assert ask(server, "/fleet/v1/events", FREEZE)[0] == 201

        with failing_syncs(server):
            status, said = ask(server, "/fleet/v1/events", FREEZE)
            alive, sick = ask(server, "/healthz"), ask(server, "/readyz")
            again = ask(server, "/fleet/v1/events", FREEZE)
        after = ask(server, "/fleet/v1/events", FREEZE)
        well = ask(server, "/readyz")
        shown = events(server)

    assert status == 503
    assert "it is unknown whether the change was stored" in said
    assert (alive[0], sick[0]) == (200, 503)
    assert all("changes cannot be stored" in text for _, text in (alive, sick))
    assert again[0] == 503
    assert well[0] == 200
    assert after[0] == 201
    (tmp_path / "again").mkdir()
    with up(tmp_path / "again", "--vm", "db", "--data", str(tmp_path / "state")) as server:
        assert events(server) == shown


@pytest.mark.slow
@pytest.mark.needs("strace")
@pytest.mark.rule("R-12")
def test_a_server_killed_while_its_syncs_fail_has_kept_all_that_it_answered(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--start-enabled", "--data", str(tmp_path / "state")) as server:
        for _ in range(3):
            assert ask(server, "/fleet/v1/events", FREEZE)[0] == 201
        with failing_syncs(server):
            assert ask(server, "/fleet/v1/events", FREEZE)[0] == 503
            server.process.kill()
            server.process.wait()

    (tmp_path / "again").mkdir()
    with up(tmp_path / "again", "--vm", "db", "--data", str(tmp_path / "state")) as server:
        assert events(server) in {3, 4}
