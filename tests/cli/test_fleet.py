"""The commands that talk to a running server, as a person or a script uses them."""

import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from fairwarning.cli.client import OperatorClient
from fairwarning.core.document.render import Json
from tests.cli.server import FAIRWARNING, Server, call, free_port, until, up


@pytest.fixture
def manual(tmp_path: Path) -> Iterator[Server]:
    with up(tmp_path, "--clock", "manual", "--start-enabled") as server:
        yield server


def poll(server: Server, machine: str) -> None:
    """Poll as the guest of a machine."""
    url = f"{server.ready['metadata'][machine]}/metadata/scheduledevents?api-version=2020-07-01"
    assert httpx2.get(url, headers={"Metadata": "true"}, trust_env=False).status_code == 200


def test_an_event_can_be_caused_approved_and_looked_up(manual: Server) -> None:
    (event,) = manual.cause("restart", "web_0")
    approved = manual.tell("approve", event["id"].lower())
    manual.tell("clock", "advance", "1m")
    *rows, advanced, last = manual.history()
    rows.append(last)

    assert (event["type"], event["status"], event["resources"]) == ("Reboot", "Scheduled", ["web_0"])
    assert f"{event['id']}  Reboot  Started  web_0     -" in approved
    assert [row["kind"] for row in rows] == ["scheduled", "approved", "started", "finished"]
    assert {row["event"] for row in rows} == {event["id"]}
    assert {tuple(row["resources"]) for row in rows} == {("web_0",)}
    assert rows[1]["by"] == "operator"
    assert (advanced["kind"], advanced["by"]) == ("advanced", "operator")


def test_the_table_of_a_cause_has_the_event_and_its_time(manual: Server) -> None:
    printed = manual.tell("cause", "freeze", "app-0", "--notice", "30s").splitlines()

    assert printed[0].split() == ["EVENT", "TYPE", "STATUS", "MACHINES", "READ", "NOT", "BEFORE"]
    assert printed[1].split()[1:4] == ["Freeze", "Scheduled", "app-0"]
    assert printed[1].endswith("Z")


def test_a_cause_can_name_a_host(manual: Server) -> None:
    (machine,) = (one for one in json.loads(manual.tell("vms", "--json")) if one["name"] == "db")

    (event,) = manual.cause("freeze", "--host", machine["host"])

    assert event["resources"] == ["db"]


def test_a_cause_can_name_several_hosts(manual: Server) -> None:
    events = manual.cause("freeze", "--host", "host-db-0-0", "--host", "host-batch-0-0")

    assert [event["resources"] for event in events] == [["db"], ["batch"]]


def test_a_host_that_is_refused_does_not_undo_the_others(manual: Server) -> None:
    done = manual.command(
        "cause", "freeze", "--host", "host-db-0-0", "--host", "host-db-9-9", "--host", "host-batch-0-0"
    )

    assert done.code == 1
    assert done.stderr.splitlines()[0] == "error: host-db-9-9: no machine is on host host-db-9-9"
    assert [line.split()[1:4] for line in done.stdout.splitlines()[1:]] == [
        ["Freeze", "Scheduled", "db"],
        ["Freeze", "Scheduled", "batch"],
    ]
    assert len(json.loads(manual.tell("events", "--json"))) == 2


@pytest.mark.rule("T-43")
@pytest.mark.parametrize(
    ("machine", "command"),
    [
        pytest.param("web_0", "az vmss update --enable-terminate-notification true", id="of a set"),
        pytest.param(
            "db", "az vm update --set scheduledEventsProfile=", id="of a machine outside of scale sets"
        ),
    ],
)
def test_a_notice_of_a_delete_that_would_be_ignored_is_refused_with_a_way_to_enable_it(
    manual: Server, machine: str, command: str
) -> None:
    done = manual.command("cause", "delete", machine, "--notice", "10m")

    error, hint = done.stderr.splitlines()
    assert done.code == 1
    assert error == (
        f"error: {machine} gets no notice of a delete: terminate notification is not enabled in its model "
        "(terminate_notice, 5m to 15m)"
    )
    assert hint.startswith("hint: ")
    assert command in hint
    assert machine in manual.tell("vms")


@pytest.mark.rule("L-22")
def test_an_approved_event_that_waits_for_others_says_so(tmp_path: Path) -> None:
    words = ("--availability-set", "app=2", "--terminate-notice", "5m", "--no-arm")
    with up(tmp_path, "--scale-set", "web=2", "--clock", "manual", "--start-enabled", *words) as server:
        first, second = server.cause("delete", "web_0", "web_1")

        approved = server.tell("approve", first["id"])
        listed = server.tell("events")

    assert "  approved, waits for 1 other delete of web  web_0" in approved
    assert "  approved, waits for 1 other delete of web  web_0" in listed
    assert f"{second['id']}  Terminate  Scheduled " in listed


@pytest.mark.rule("R-30")
def test_events_are_listed_with_when_their_machines_read_them(manual: Server) -> None:
    (event,) = manual.cause("restart", "web_0")
    unread = manual.tell("events")
    poll(manual, "web_0")

    read = manual.tell("events", event["id"])

    assert re.search(r"  Scheduled  web_0 +-  ", unread)
    assert re.search(r"  Scheduled  web_0 +[-0-9]+ [:0-9]+Z  ", read)


@pytest.mark.rule("R-30")
def test_a_server_that_was_killed_knows_the_reads_that_it_has_stored(tmp_path: Path) -> None:
    data = tmp_path / "data"

    def stored() -> bool:
        with closing(sqlite3.connect(f"file:{data / 'fairwarning.db'}?mode=ro", uri=True)) as database:
            ((count,),) = database.execute("SELECT count(*) FROM document WHERE key LIKE 'first-reads:%'")
        return bool(count)

    with up(tmp_path, "--data", str(data), "--start-enabled", "--no-arm") as server:
        (event,) = server.cause("restart", "web_0")
        poll(server, "web_0")
        before = server.tell("events", event["id"])
        until(stored, "the read is stored")
        server.process.kill()
        server.process.wait(timeout=60)

    with up(tmp_path, "--data", str(data), "--no-arm") as server:
        after = server.tell("events", event["id"])

    assert after == before


def test_a_hardware_failure_can_have_another_event_type(manual: Server) -> None:
    (event,) = manual.cause("hardware-failure", "db", "--kind", "Reboot")

    assert (event["type"], event["status"]) == ("Reboot", "Started")


def test_an_event_can_be_cancelled(manual: Server) -> None:
    (event,) = manual.cause("freeze", "db")

    manual.tell("cancel", event["id"])
    listed = manual.command("events")

    assert listed.stdout == ""
    assert listed.stderr == "no events are pending\n"
    assert [row["kind"] for row in manual.history()] == ["scheduled", "cancelled"]


def test_what_was_done_before_a_refusal_is_printed(manual: Server) -> None:
    (freeze,) = manual.cause("freeze", "db")
    (reboot,) = manual.cause("restart", "web_0")
    manual.tell("approve", reboot["id"])

    refused = manual.command("cancel", reboot["id"], freeze["id"], "--json")
    partly = manual.command("cancel", freeze["id"], reboot["id"])

    assert (refused.code, refused.stdout) == (1, "")
    assert partly.code == 1
    assert [line.split()[0] for line in partly.stdout.splitlines()] == ["EVENT", freeze["id"]]
    assert partly.stderr.startswith("error: ")


def test_an_event_that_is_named_twice_is_approved_once(manual: Server) -> None:
    (event,) = manual.cause("restart", "web_0")

    approved = json.loads(manual.tell("approve", event["id"][:8], event["id"].lower(), "--json"))

    assert [one["id"] for one in approved] == [event["id"]]
    assert [row["kind"] for row in manual.history()] == ["scheduled", "approved", "started"]


def test_the_history_of_one_event_leaves_out_the_others(manual: Server) -> None:
    (event,) = manual.cause("freeze", "db")
    manual.cause("freeze", "web_0")

    rows = json.loads(manual.tell("history", event["id"], "--json"))

    assert [row["resources"] for row in rows] == [["db"]]


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        pytest.param(
            ["cause", "restart", "nobody"], "no machine named nobody",
            "fairwarning vms lists the machines", id="a machine that does not exist",
        ),
        pytest.param(
            ["approve", "C7061BAC"], "no pending event has an id that starts with C7061BAC",
            "fairwarning events lists the pending events, fairwarning history all events",
            id="an event that does not exist",
        ),
        pytest.param(
            ["history", "C7061BAC"], "no event has an id that starts with C7061BAC",
            "fairwarning history lists all events", id="the history of no event",
        ),
        pytest.param(
            ["history", "C7061BAC", "--json"], "no event has an id that starts with C7061BAC",
            "fairwarning history lists all events", id="the history of no event, as JSON",
        ),
        pytest.param(
            ["rollout", "--scope", "nowhere"], "no scope named nowhere",
            "fairwarning vms lists the machines with their scopes", id="a scope that does not exist",
        ),
        pytest.param(
            ["clock", "advance", "1m"],
            "a real clock cannot be advanced; start the server with a manual clock",
            "start the server with: fairwarning up --clock manual", id="a clock that cannot be moved",
        ),
    ],
)  # fmt: skip
def test_a_refusal_ends_with_1_and_a_hint(bare: Server, words: list[str], error: str, hint: str) -> None:
    done = bare.command(*words)

    assert done.code == 1
    assert done.stdout == ""
    assert done.stderr == f"error: {error}\nhint: {hint}\n"


@pytest.mark.rule("R-23")
def test_a_cause_says_that_no_guest_polls(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db") as server:
        done = server.command("cause", "restart", "db")
        rolled_out = server.command("rollout", "--scope", "db")

    assert "Started" in done.stdout
    assert (
        done.stderr
        == "no guest polls db: the action happened at once; hint: poll first, or up --start-enabled\n"
    )
    assert rolled_out.stderr.startswith(
        "no guest polls db: the action will happen without warning; hint: poll first, or up --start-enabled\n"
    )


@pytest.mark.rule("L-16")
def test_the_eleventh_restart_of_the_first_preview_is_refused(tmp_path: Path) -> None:
    words = ["--profile", "preview2017", "--availability-set", "app=11", "--clock", "manual"]
    with up(tmp_path, *words, "--start-enabled") as server:
        for number in range(10):
            server.cause("restart", f"app-{number}")

        eleventh = server.command("cause", "restart", "app-10")

        assert eleventh.code == 1
        assert "scope app has 10 user operations under way" in eleventh.stderr
        assert len(json.loads(server.tell("events", "--json"))) == 10
        assert server.history()[-1]["kind"] == "refused"


def test_the_clock_is_shown_and_moved_to_the_next_deadline(manual: Server) -> None:
    manual.cause("freeze", "db", "--notice", "10m")
    due = json.loads(manual.tell("clock", "show", "--json"))["next_deadline"]

    moved = json.loads(manual.tell("clock", "next", "--json"))

    assert moved["mode"] == "manual"
    assert moved["now"] == due
    assert [row["kind"] for row in manual.history()] == ["scheduled", "advanced", "started"]


def test_the_speed_of_a_real_clock_can_be_changed(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--speed", "60") as server:
        before = json.loads(server.tell("clock", "show", "--json"))["speed"]
        after = json.loads(server.tell("clock", "speed", "120", "--json"))["speed"]

    assert (before, after) == (60, 120)


@pytest.mark.rule("S-05")
def test_a_rollout_that_is_followed_shows_each_domain_in_turn(tmp_path: Path) -> None:
    with up(tmp_path, "--availability-set", "app=3", "--speed", "100") as server:
        printed = server.tell("rollout", "host-update", "--scope", "app", "--notice", "10s", "--follow")

    lines = [line.partition("Z  ") for line in printed.splitlines()]
    happened = [(when.split("  ")[0], what) for when, _, what in lines]
    assert happened == [
        (f"domain {number} ({number + 1} of 3)", f"Freeze of app-{number} {what}")
        for number in range(3)
        for what in ("is scheduled by operator", "has started", "is over")
    ]


def test_a_rollout_that_is_followed_as_json_is_an_object_per_line(tmp_path: Path) -> None:
    with up(tmp_path, "--availability-set", "app=1", "--speed", "100") as server:
        printed = server.tell("rollout", "--scope", "app", "--notice", "10s", "--follow", "--json")

    begun, *lines = map(json.loads, printed.splitlines())
    assert begun["scope"] == "app"
    assert [line["kind"] for line in lines] == ["scheduled", "started", "finished"]


def test_a_refused_rollout_is_a_rollout_in_the_history(manual: Server) -> None:
    manual.tell("rollout", "--scope", "web")
    manual.command("rollout", "--scope", "web")

    assert [(row["kind"], row["type"]) for row in manual.history()][-1] == ("refused", "rollout host-update")


def test_rollouts_are_started_and_stopped_at_their_routes(
    manual: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    send = OperatorClient.call

    def record(
        client: OperatorClient, method: str, path: str, body: Mapping[str, Json] | None = None
    ) -> bytes:
        calls.append((method, path))
        return send(client, method, path, body)

    monkeypatch.setattr(OperatorClient, "call", record)
    manual.tell("rollout", "--scope", "web")
    manual.tell("rollout", "--scope", "web", "--stop")

    assert calls == [("POST", "/rollouts"), ("DELETE", "/rollouts/web")]


def test_a_rollout_can_be_stopped(manual: Server) -> None:
    manual.tell("rollout", "--scope", "web")

    manual.tell("rollout", "--scope", "web", "--stop")

    assert [row["kind"] for row in manual.history()] == ["scheduled", "cancelled"]


def test_watching_as_json_begins_with_the_pending_events(manual: Server) -> None:
    (event,) = manual.cause("freeze", "db")
    watching = subprocess.Popen(
        [*FAIRWARNING, "events", "--watch", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "FAIRWARNING_URL": manual.ready["operator"]},
    )  # fmt: skip
    assert watching.stdout is not None
    try:
        first = json.loads(watching.stdout.readline())

        manual.tell("cancel", event["id"])
        second = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=20)
    finally:
        watching.kill()
        watching.communicate()

    assert (first["kind"], first["id"], first["status"]) == ("pending", event["id"], "Scheduled")
    assert (second["kind"], second["event"]) == ("cancelled", event["id"])


def test_the_machines_are_listed_with_when_their_scope_was_polled(bare: Server) -> None:
    heading, *_ = bare.tell("vms").splitlines()

    assert "SCOPE POLLED" in heading


def test_watching_continues_after_a_restart_of_the_server(tmp_path: Path) -> None:
    data, out, err = str(tmp_path / "data"), tmp_path / "watch.out", tmp_path / "watch.err"
    address = f"127.0.0.1:{free_port()}"
    arguments = ("--data", data, "--clock", "manual", "--operator", address)
    with up(tmp_path, *arguments, "--start-enabled") as first:
        with out.open("wb") as stdout, err.open("wb") as stderr:
            watching = subprocess.Popen(
                [*FAIRWARNING, "events", "--watch"], stdout=stdout, stderr=stderr,
                env={**os.environ, "FAIRWARNING_URL": f"http://{address}"},
            )  # fmt: skip
        until(lambda: "watching" in err.read_text(), "the watch has begun")
        first.cause("freeze", "db")
        until(lambda: "Freeze of db is scheduled" in out.read_text(), "the first event is printed")
        first.stop()
    until(lambda: "is lost; trying again" in err.read_text(), "the loss is noted")

    try:
        with up(tmp_path, *arguments) as second:
            second.cause("freeze", "web_0")
            until(lambda: "Freeze of web_0 is scheduled" in out.read_text(), "the second event is printed")
    finally:
        watching.send_signal(signal.SIGINT)
        try:
            code = watching.wait(timeout=20)
        finally:
            watching.kill()
            watching.wait()

    assert code == 0
    assert "again\n" in err.read_text()
    assert out.read_text().count("is scheduled") == 2


def test_an_endpoint_has_a_fault_until_it_is_cleared(manual: Server) -> None:
    faulty = json.loads(manual.tell("fault", "web_0", "410", "--for", "10m", "--json"))
    cleared = json.loads(manual.tell("fault", "web_0", "none", "--json"))

    assert (faulty["name"], faulty["fault"], cleared["fault"]) == ("web_0", "410", None)


def test_an_unknown_fault_is_refused(manual: Server) -> None:
    refused = manual.command("fault", "web_0", "plague")

    assert refused.code == 2
    assert "429" in refused.stderr


def test_the_old_name_of_a_rollout_is_accepted_and_not_listed(manual: Server) -> None:
    done = manual.command("walk", "--scope", "web")
    listed = manual.tell("--help")

    assert done.code == 0
    assert done.stderr.startswith("note: the command walk is now called rollout\n")
    assert "  rollout " in listed
    assert "  walk " not in listed


def test_a_rollout_that_is_stopped_says_so_as_json(manual: Server) -> None:
    manual.tell("rollout", "--scope", "web")

    assert json.loads(manual.tell("rollout", "--scope", "web", "--stop", "--json")) == {
        "scope": "web",
        "stopped": True,
    }


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        pytest.param(["cause", "restart", "db", "web_9"], "web_", id="cause"),
        pytest.param(["cause", "restart", "WEB_0"], "web_0", id="cause in another case"),
        pytest.param(["fault", "app-9", "429"], "app-", id="fault"),
        pytest.param(["exec", "--vm", "batc", "true"], "batch", id="exec"),
        pytest.param(["rollout", "--scope", "wed"], "web", id="rollout"),
    ],
)
def test_close_names_are_suggested_for_an_unknown_machine_or_scope(
    bare: Server, words: list[str], suggestion: str
) -> None:
    done = bare.command(*words)

    assert done.code == 1
    assert re.search(rf"^error: .* \(did you mean {suggestion}.*\?\)$", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        pytest.param(["cause", "hardware-failure", "db", "--kind", "Preempt"], "--kind", id="cause --kind"),
        pytest.param(["cause", "restart", "db", "--host", "host-db-0-0"], "--host", id="cause --host"),
    ],
)
def test_a_value_that_the_server_refuses_is_a_usage_error_of_its_option(
    bare: Server, words: list[str], parameter: str
) -> None:
    done = bare.command(*words)

    assert done.code == 2
    assert f"Error: Invalid value for '{parameter}': " in done.stderr


@pytest.mark.parametrize(
    ("reads", "writes", "hint"),
    [
        pytest.param(["0.3", "0.3"], "0.2", "db migrate --finish", id="an upgrade that waits"),
        pytest.param(["0.3", "0.3"], "0.3", "", id="a finished upgrade"),
        pytest.param(["0.2", "0.3"], "0.2", "", id="a server of the earlier release"),
    ],
)
def test_the_list_of_servers_says_if_an_upgrade_waits_for_its_last_step(
    monkeypatch: pytest.MonkeyPatch, reads: list[str], writes: str, hint: str
) -> None:
    node = {
        "id": "n",
        "name": "n",
        "address": "",
        "this": False,
        "position": 1,
        "lag": 0,
        "clock_offset": 0.0,
    }
    known = {**node, "release": "0.3.0", "seen_at": "2026-11-16T12:00:00Z"}
    answer = {"nodes": [{**known, "reads": release} for release in reads], "writes": writes}
    monkeypatch.setattr(OperatorClient, "get", lambda client, path: json.dumps(answer).encode())

    listed = call("nodes")

    assert listed.code == 0
    assert (hint in listed.stderr) if hint else listed.stderr == ""
