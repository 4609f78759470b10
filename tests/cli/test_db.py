"""``db``: what the commands print, their exit codes, and a drill with a real server."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.server import call, up
from tests.database.editing import edit, run
from tests.store.damage import Sample, closed
from tests.store.test_old_databases import RELEASE


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return closed(tmp_path_factory.mktemp("sample"))


def test_a_sound_database_ends_with_0_and_says_what_is_proved(sample: Sample) -> None:
    done = call("db", "check", "--data", str(sample.directory))

    assert done.code == 0
    assert done.stdout.splitlines() == [
        "59 rows and 66 journal lines checked: no findings",
        "the journal proves everything about 2 scopes",
    ]


def test_a_damaged_database_ends_with_1_and_names_the_damage(sample: Sample, tmp_path: Path) -> None:
    directory = sample.copy(tmp_path / "copy")
    edit(directory, "scope", "id = 'web'", version=99)

    done = call("db", "check", "--data", str(directory))

    assert done.code == 1
    assert "scope web  has version 99; the journal leads to 13" in done.stdout
    assert "1 finding" in done.stdout


def test_the_json_of_a_check_has_everything(sample: Sample, tmp_path: Path) -> None:
    directory = sample.copy(tmp_path / "copy")
    run(directory, "DELETE FROM journal WHERE seq = 20")

    done = call("db", "check", "--data", str(directory), "--json")

    report = json.loads(done.stdout)
    assert done.code == 1
    assert report["sound"] is False
    assert [finding["kind"] for finding in report["findings"]] == ["gap"]
    assert report["counts"] == {"gap": 1}
    assert report["journal_complete_after"] == 20


def test_an_old_database_is_migrated_once(tmp_path: Path) -> None:
    directory = str(shutil.copytree(RELEASE.parent, tmp_path / "old"))

    refused = call("db", "check", "--data", directory)
    migrated = call("db", "migrate", "--data", directory)
    again = call("db", "migrate", "--data", directory, "--json")

    assert (refused.code, migrated.code, again.code) == (1, 0, 0)
    assert "the database has schema 3" in refused.stderr
    assert "hint: to migrate it: fairwarning db migrate" in refused.stderr
    assert migrated.stdout == "migrated from schema 3 to schema 6\n"
    assert json.loads(again.stdout) == {"from": 6, "to": 6}


def test_a_database_has_to_be_named(tmp_path: Path) -> None:
    for command in (["check"], ["migrate"], ["backup", str(tmp_path / "file")], ["restore", "file"]):
        assert call("db", *command).code == 2


def test_a_backup_and_a_database_are_not_checked_at_once(sample: Sample) -> None:
    assert call("db", "check", "--backup", "file", "--data", str(sample.directory)).code == 2


def test_a_missing_database_and_a_missing_backup_are_refused(tmp_path: Path) -> None:
    checked = call("db", "check", "--data", str(tmp_path))
    restored = call("db", "restore", str(tmp_path / "file"), "--data", str(tmp_path / "new"))

    assert (checked.code, restored.code) == (1, 1)
    assert "has no database" in checked.stderr
    assert "cannot be restored: No such file or directory" in restored.stderr
    assert not (tmp_path / "new").exists()


def test_a_fleet_is_backed_up_while_it_runs_and_goes_on_elsewhere(tmp_path: Path) -> None:
    old, new, file = str(tmp_path / "old"), str(tmp_path / "new"), str(tmp_path / "fleet.backup")
    with up(tmp_path, "--data", old, "--scale-set", "web=3") as server:
        server.tell("cause", "restart", "web_0")
        backed_up = call("db", "backup", file, "--data", old)
        again = call("db", "backup", file, "--data", old)
    checked = call("db", "check", "--backup", file)
    restored = call("db", "restore", file, "--data", new)
    twice = call("db", "restore", file, "--data", new)
    with up(tmp_path, "--data", new) as server:
        machines = json.loads(server.tell("vms", "--json"))
        history = server.history()

    assert (backed_up.code, checked.code, restored.code) == (0, 0, 0)
    assert "has 3 machines and" in backed_up.stdout
    assert again.code == 1
    assert "hint: choose another name, or give --overwrite" in again.stderr
    assert "restored 3 machines" in restored.stdout
    assert twice.code == 1
    assert "is not empty" in twice.stderr
    assert [machine["name"] for machine in machines] == ["web_0", "web_1", "web_2"]
    assert [line["kind"] for line in history if line["kind"] == "restored"] == ["restored"]
