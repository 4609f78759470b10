"""``doctor --data``: whether a directory holds what was written to it, and can be written."""

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest

from fairwarning.store import examine
from fairwarning.store.marker import MARKER
from fairwarning.store.sqlite import DATABASE
from tests.cli.server import call, up
from tests.store.damage import Sample, closed, killed, read


class Finding(TypedDict):
    """What was found about one thing."""

    about: str
    verdict: str
    says: str
    hint: str


def look(directory: Path) -> dict[str, Finding]:
    """Return what the doctor finds in a directory that no server is running on."""
    findings: list[Finding] = json.loads(call("doctor", "--data", str(directory), "--json").stdout)
    return {one["about"]: one for one in findings}


@pytest.fixture
def whole(tmp_path: Path) -> Sample:
    return closed(tmp_path / "state")


def test_the_rows_of_an_intact_database_are_counted(whole: Sample) -> None:
    found = look(whole.directory)

    assert found["database"]["verdict"] == "ok"
    assert "rows and 66 journal lines are as they were written" in found["database"]["says"]
    assert "MB are free" in found["data"]["says"]


def test_a_single_row_is_counted_in_the_singular(whole: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "check_all", lambda database: {"scopes": 1, "journal": 1})

    assert "1 row and 1 journal line are as they were written" in look(whole.directory)["database"]["says"]


def test_the_examination_changes_nothing(tmp_path: Path) -> None:
    left = killed(tmp_path / "state")
    before = {name: (left.directory / name).read_bytes() for name in (DATABASE, f"{DATABASE}-wal", MARKER)}

    assert look(left.directory)["database"]["verdict"] == "ok"

    assert {name: (left.directory / name).read_bytes() for name in before} == before
    assert asyncio.run(read(left.directory)) == left.state


def test_a_flipped_bit_in_the_journal_is_found(whole: Sample) -> None:
    path = whole.directory / DATABASE
    content = path.read_bytes()
    at = content.index(b'"by":"operator"') + 7
    path.write_bytes(content[:at] + b"O" + content[at + 1 :])

    found = look(whole.directory)["database"]

    assert found["verdict"] == "wrong"
    assert "does not match its checksum" in found["says"]
    assert "restore a backup with fairwarning db restore" in found["hint"]


def test_a_missing_database_is_found(whole: Sample) -> None:
    (whole.directory / DATABASE).unlink()

    found = look(whole.directory)["database"]

    assert found["verdict"] == "wrong"
    assert "it is missing, but fairwarning.json says that there was one" in found["says"]
    assert not (whole.directory / DATABASE).exists()


def test_a_new_directory_has_no_database_yet(tmp_path: Path) -> None:
    found = look(tmp_path)

    assert (found["database"]["verdict"], found["data"]["verdict"]) == ("ok", "ok")
    assert "no database yet" in found["database"]["says"]


def test_a_directory_in_use_is_only_read(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--data", str(tmp_path / "state")) as server:
        done = server.command("doctor", "--data", str(tmp_path / "state"))

    assert done.code == 0, done.stdout
    assert "is used by a server" in done.stdout
    assert "journal lines are as they were written" in done.stdout


def test_a_server_does_not_start_on_a_damaged_database_and_says_what_helps(whole: Sample) -> None:
    path = whole.directory / DATABASE
    path.write_bytes(path.read_bytes().replace(b'"web_1"', b'"web\xff1"'))

    done = call("up", "--data", str(whole.directory), "--port-base", "0")

    assert done.code == 1
    assert f"error: database {path} is damaged: " in done.stderr
    assert "hint: fairwarning doctor --data DIR checks all of it\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_does_not_start_where_a_database_was_removed(whole: Sample) -> None:
    (whole.directory / DATABASE).unlink()

    done = call("up", "--data", str(whole.directory), "--port-base", "0")

    assert done.code == 1
    assert "does not belong to this data directory: it is missing" in done.stderr
    assert "remove fairwarning.json" in done.stderr


def test_a_directory_that_takes_no_large_files_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fairwarning", "doctor", "--data", str(tmp_path), "--json"]

    done = subprocess.run(
        command, capture_output=True, check=False, preexec_fn=_no_large_files, text=True, timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # a module that is compiled now would be cut off
    )  # fmt: skip

    findings: list[Finding] = json.loads(done.stdout)
    (found,) = [one for one in findings if one["about"] == "data"]
    assert found["verdict"] == "wrong"
    assert str(tmp_path) in found["says"]
    assert "MB are free" in found["says"]


def _no_large_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


MOUNT = "mount -t tmpfs -o size=1m none {place} && head -c 2m /dev/zero > {place}/filler; {doctor}"


def test_a_full_disk_is_found_and_named(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], check=False).returncode != 0:
        pytest.skip("a small disk takes namespaces for users")
    doctor = f"{sys.executable} -m fairwarning doctor --data {tmp_path} --json"
    script = MOUNT.format(place=tmp_path, doctor=doctor)

    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", script], capture_output=True, check=False, text=True, timeout=60
    )

    findings: list[Finding] = json.loads(done.stdout)
    (found,) = [one for one in findings if one["about"] == "data"]
    assert found["verdict"] == "wrong"
    assert f"{tmp_path}: No space left on device; 0.0 MB are free" in found["says"]
    assert found["hint"] == f"free some space on the disk that {tmp_path} is on"
