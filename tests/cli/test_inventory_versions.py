"""``serve`` with an older file: it undoes nothing unless the file says so."""

import json
import signal
from pathlib import Path

import httpx2
import pytest

from tests.cli.server import call, until
from tests.cli.test_serve import FLEET, Serving, serving
from tests.docs.troubleshooting import assert_quoted

NEWER = FLEET.replace('name = "w1"', 'name = "w3"')


def replacing(text: str, version: str) -> str:
    """Return a file that replaces a newer inventory."""
    return f'{text}[inventory]\nreplaces = "{version}"\n'


def numbered(text: str, number: int) -> str:
    """Return a file whose inventory has a number."""
    return f"{text}[inventory]\nversion = {number}\n"


def reload(server: Serving, text: str, outcome: str) -> None:
    """Let a server read another file; it logs the outcome."""
    before = server.logged().count(outcome)
    server.path.write_text(text)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.logged().count(outcome) > before, f"serve logs {outcome}")


def names(server: Serving) -> list[str]:
    """Return the names of all machines."""
    return sorted(machine["name"] for machine in server.tell("vms"))


def metric(server: Serving, name: str) -> str:
    """Return the line of a metric."""
    lines = httpx2.get(f"{server.url}/metrics", trust_env=False).text.splitlines()
    return next(line for line in lines if line.startswith(name))


@pytest.mark.rule("F-04", "F-05")
def test_a_server_on_sqlite_starts_with_an_older_file_only_on_purpose(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    with serving(tmp_path, NEWER) as server:
        (node,) = server.tell("nodes")

    with pytest.raises(AssertionError) as refused, serving(tmp_path):
        pass
    with serving(tmp_path, replacing(FLEET, node["inventory"])) as server:
        after = names(server)
    with serving(tmp_path) as server:
        again = names(server)

    assert "error: inventory" in str(refused.value)
    assert "hint: start with the newer file" in str(refused.value)
    assert f'replaces = "{node["inventory"]}" in [inventory] applies it nevertheless' in str(refused.value)
    assert (after, again) == (["w1", "w2"], ["w1", "w2"])


def hosts(server: Serving) -> dict[str, str]:
    """Return the host of each machine."""
    return {machine["name"]: machine["host"] for machine in server.tell("vms")}


@pytest.mark.rule("F-08")
def test_a_machine_that_was_moved_stays_moved_over_reloads_and_restarts_until_its_line_changes(
    tmp_path: Path,
) -> None:
    more = f'{FLEET}[[machine]]\nname = "w3"\n'
    with serving(tmp_path) as server:
        server.tell("move", "w1", "rack7")
        reload(server, FLEET, "reloaded")
        same = hosts(server)
        reload(server, more, "reloaded")
    with serving(tmp_path, more) as server:
        restarted = hosts(server)
    with serving(tmp_path, more.replace("rack1", "rack2")) as server:
        changed = hosts(server)

    assert [one["w1"] for one in (same, restarted, changed)] == ["rack7", "rack7", "rack2"]


@pytest.mark.rule("F-04", "F-05")
def test_a_reload_with_an_older_file_changes_nothing_and_is_a_metric(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        reload(server, NEWER, "reloaded")
        version = server.tell("nodes")[0]["inventory"]
        well = metric(server, "fairwarning_reload_failed")
        reload(server, FLEET, "reload_failed")
        after, failed = names(server), metric(server, "fairwarning_reload_failed")
        info = metric(server, "fairwarning_inventory_info")
        with server.guest("127.77.0.1") as guest:
            known = guest.get("/metadata/instance/compute/name?api-version=2021-02-01&format=text").text
        reload(server, replacing(FLEET, version), "reloaded")
        on_purpose, well_again = names(server), metric(server, "fairwarning_reload_failed")

    assert (after, known, on_purpose) == (["w2", "w3"], "w3", ["w1", "w2"])
    assert info == f'fairwarning_inventory_info{{version="{version}"}} 1'
    assert [well, failed, well_again] == [f"fairwarning_reload_failed {value}" for value in (0, 1, 0)]


@pytest.mark.rule("F-04")
def test_a_start_with_a_smaller_number_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, numbered(FLEET, 2)):
        pass

    with pytest.raises(AssertionError) as refused, serving(tmp_path, numbered(NEWER, 1)):
        pass

    assert_quoted("The inventory is older than that of the fleet", str(refused.value))


@pytest.mark.rule("F-01", "F-03", "F-04")
def test_numbers_of_inventories_count_up(tmp_path: Path) -> None:
    with serving(tmp_path, numbered(FLEET, 2)) as server:
        (node,) = server.tell("nodes")
        reload(server, numbered(NEWER, 1), "reload_failed")
        reload(server, numbered(NEWER, 2), "reload_failed")
        before = names(server)
        reload(server, numbered(NEWER, 3), "reloaded")
        after = names(server)
        lines = (tmp_path / "stderr").read_text().splitlines()

    problems = [json.loads(line).get("problem", "") for line in lines if line.startswith("{")]
    older, changed = filter(None, problems)
    assert (node["inventory"], before, after) == ("2", ["w1", "w2"], ["w2", "w3"])
    assert older.startswith("inventory 1 is older, and the fleet has inventory 2 since ")
    assert changed.startswith("inventory 2 has changed, but not its number; give it a number larger than 2")


def test_check_says_the_version_of_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    hashed = json.loads(call("serve", "--check", str(path), "--json").stdout)["machines"]
    path.write_text(f"{FLEET}[inventory]\nversion = 12\n")
    numbered = json.loads(call("serve", "--check", str(path), "--json").stdout)["machines"]

    assert hashed.startswith("2 machines: 0 standalone, 2 in 1 set; inventory ")
    assert numbered == "2 machines: 0 standalone, 2 in 1 set; inventory 12"
