"""``db``: what the commands print, their exit codes, and a drill with a real server."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.server import call, up
from tests.database.editing import edit, run
from tests.postgres import empty_database
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
    assert migrated.stdout == "migrated from schema 3 to schema 7\n"
    assert json.loads(again.stdout) == {"from": 7, "to": 7}


@pytest.fixture
def dsn_file(tmp_path: Path) -> Path:
    file = tmp_path / "dsn"
    file.write_text(f"{empty_database()}\n")
    file.chmod(0o600)
    return file


def test_a_fleet_moves_to_postgresql(sample: Sample, tmp_path: Path, dsn_file: Path) -> None:
    file, dsn = str(tmp_path / "fleet.backup"), ("--dsn-file", str(dsn_file))
    call("db", "backup", file, "--data", str(sample.directory))

    migrated = call("db", "migrate", *dsn)
    restored = call("db", "restore", file, *dsn)
    checked = call("db", "check", *dsn)
    backed_up = call("db", "backup", file, "--overwrite", *dsn)
    finished = call("db", "migrate", "--finish", *dsn)

    assert migrated.stdout.endswith("is up to date\n")
    assert "restored 16 machines with 12 events pending" in restored.stdout
    assert checked.stdout.splitlines()[0].endswith("70 journal lines checked: no findings")
    assert backed_up.code == 0
    assert finished.stdout.startswith("from now on a node has to know schema")


def test_an_address_is_read_only_from_a_private_file(tmp_path: Path, dsn_file: Path) -> None:
    dsn_file.chmod(0o640)

    open_to_others = call("db", "check", "--dsn-file", str(dsn_file))
    missing = call("db", "check", "--dsn-file", str(tmp_path / "none"))
    dsn_file.chmod(0o600)
    dsn_file.write_text("password=secret nonsense")
    unreadable = call("db", "check", "--dsn-file", str(dsn_file))

    assert (open_to_others.code, missing.code, unreadable.code) == (1, 1, 1)
    assert f"(mode 0640): chmod 600 {dsn_file}" in open_to_others.stderr
    assert "cannot be read: No such file or directory" in missing.stderr
    assert "the address of the database cannot be read" in unreadable.stderr
    assert "secret" not in unreadable.stderr


def test_a_database_that_does_not_answer_is_an_error_without_the_password(dsn_file: Path) -> None:
    dsn_file.write_text("postgresql://me:secret@127.0.0.1:1/fleet")

    done = call("db", "check", "--dsn-file", str(dsn_file))

    assert done.code == 1
    assert "the database does not answer" in done.stderr
    assert "secret" not in done.stderr


CONFIG = """
driver = "external"
[operator]
listen = "127.0.0.1:0"
[metadata]
listen = ["127.0.0.1:0"]
[[machine]]
name = "db"
address = "127.0.0.1"
[store]
"""


def test_the_file_of_a_server_names_its_database(sample: Sample, tmp_path: Path, dsn_file: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(f'{CONFIG}kind = "sqlite"\npath = "{sample.directory}"\n')
    sqlite = call("db", "check", "--config", str(file))
    file.write_text(f'{CONFIG}kind = "postgres"\ndsn_file = "{dsn_file}"\n')
    postgres = call("db", "check", "--config", str(file))
    file.write_text(CONFIG)
    invalid = call("db", "check", "--config", str(file))

    assert "66 journal lines checked: no findings" in sqlite.stdout
    assert "0 journal lines checked: no findings" in postgres.stdout
    assert invalid.code == 2


def test_the_environment_names_a_database_if_no_option_does(
    sample: Sample, dsn_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWARNING_DSN_FILE", str(dsn_file))

    assert "0 journal lines" in call("db", "check").stdout
    assert "66 journal lines" in call("db", "check", "--data", str(sample.directory)).stdout


def test_a_data_directory_has_nothing_to_finish(sample: Sample) -> None:
    done = call("db", "migrate", "--finish", "--data", str(sample.directory))

    assert done.code == 1
    assert "has nothing to finish" in done.stderr


def test_a_database_is_named_once(sample: Sample, dsn_file: Path) -> None:
    directory = str(sample.directory)

    assert call("db", "check", "--data", directory, "--dsn-file", str(dsn_file)).code == 2


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
