"""``complete`` and ``fail``, and the guide to them."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.server import Server, call, up
from tests.pages import Page

GUIDE = Page("docs/guides/use-your-own-tools.md")


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    words = ("--driver", "external", "--clock", "manual", "--start-enabled", "--no-arm")
    with up(tmp_path_factory.mktemp("external"), *words) as server:
        yield server


@pytest.mark.runs("docs/guides/use-your-own-tools.md")
def test_the_commands_of_the_guide_work_as_they_stand(tmp_path: Path) -> None:
    start, cause, *reports = GUIDE.commands()

    with start.running() as command:
        _, _, *words = shlex.split(command.replace("--data fleet", f"--data {tmp_path / 'fleet'}"))
    with up(tmp_path, "--no-arm", *words) as server:
        with cause.running() as command:
            (event,) = server.cause(*shlex.split(command)[2:])
        for report in reports:
            with report.running() as command:
                server.tell(*shlex.split(command.replace("4967C", event["id"][:8]))[1:])
        kinds = [row["kind"] for row in server.history()]

    assert kinds == ["scheduled", "approved", "started", "failed", "progressed", "finished"]


def test_a_report_prints_the_event_as_it_is_afterwards(external: Server) -> None:
    (event,) = external.cause("hardware-failure", "db")

    failed = external.tell("fail", event["id"], "db", "--reason", "no power")
    (done,) = json.loads(external.tell("complete", event["id"][:12].lower(), "--json"))

    assert "Started" in failed
    assert (done["id"], done["status"], done["attempt"]) == (event["id"], "Gone", 1)


def test_an_overdue_event_is_shown_as_such(external: Server) -> None:
    (event,) = external.cause("hardware-failure", "web_0")

    external.tell("clock", "advance", "1h")

    assert "Started, overdue" in external.tell("events", event["id"])
    assert external.history()[-1]["kind"] == "overdue"
    external.tell("complete", event["id"])


def test_a_machine_is_moved_and_printed(external: Server) -> None:
    printed = external.tell("move", "app/app-0", "kvm-20")
    (event,) = external.cause("hardware-failure", "app-1")
    external.tell("complete", event["id"], "app-1", "--moved-to", "kvm-21")
    moved = [line for line in external.history() if line["kind"] == "moved"]

    assert printed.splitlines()[1].split()[:5] == ["app-0", "app", "running", "0/0", "kvm-20"]
    assert [(line["resources"], line["reason"].split()[-1]) for line in moved] == [
        (["app-0"], "kvm-20"),
        (["app-1"], "kvm-21"),
    ]


def test_moving_an_unknown_machine_suggests_the_name_of_a_known_one(external: Server) -> None:
    done = external.command("move", "app-00", "kvm-20")

    assert done.code == 1
    assert "app-0" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(("complete", "db"), 2, "does not list db", id="complete of another machine"),
        pytest.param(("fail", "db", "--reason", "x"), 2, "does not list db", id="failure of another machine"),
        pytest.param(("fail", "app-0"), 2, "Missing option '--reason'", id="a failure without a reason"),
    ],
)
def test_a_report_that_does_not_fit_is_refused(
    external: Server, words: tuple[str, ...], code: int, message: str
) -> None:
    (event,) = external.cause("hardware-failure", "app-0")
    verb, *rest = words

    done = external.command(verb, event["id"], *rest)

    assert done.code == code
    assert message in done.stderr
    external.tell("complete", event["id"])


def test_a_server_with_simulated_machines_says_how_to_start_one_without(bare: Server) -> None:
    (event,) = bare.cause("restart", "db")

    done = bare.command("complete", event["id"])

    assert done.code == 1
    assert "the simulated driver ends impacts by itself" in done.stderr
    assert done.stderr.endswith("hint: start the server with: fairwarning up --driver external\n")


def test_azures_timings_are_for_simulated_machines() -> None:
    done = call("up", "--driver", "external", "--timings", "azure")

    assert done.code == 2
    assert "--timings needs the simulated driver" in done.stderr
