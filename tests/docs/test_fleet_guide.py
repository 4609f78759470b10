"""The guide for fleets does what it says: its files are written, its commands run, in order."""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import postgres
from tests.docs.reader import Reader, reader
from tests.pages import ROOT, Command, Page

PAGE = Page("docs/guides/run-it-for-a-fleet.md")


def write_files(person: Reader) -> None:
    """Write the files of the page; if root runs the tests, nobody runs the database in the folder."""
    for name, text in PAGE.files().items():
        (person.folder / name).write_text(person.here(text))
    shutil.copy(ROOT / "examples" / "act_on_events.py", person.folder)
    if os.geteuid() == 0:
        (person.folder / "database").mkdir(mode=0o700)
        (person.folder / "database.log").touch()
        for path in (person.folder / "database", person.folder / "database.log"):
            os.chown(path, postgres.NOBODY, postgres.NOBODY)


def up_to(steps: Sequence[Command], first: str, last: str) -> list[Command]:
    """Return the commands from one that begins with ``first`` up to one that begins with ``last``."""
    start = next(number for number, step in enumerate(steps) if step.text.startswith(first))
    end = next(number for number in range(start, len(steps)) if steps[number].text.startswith(last))
    return list(steps[start : end + 1])


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.needs("curl", "openssl")
@pytest.mark.runs("docs/guides/run-it-for-a-fleet.md")
def test_the_guide_for_fleets_is_true_from_its_first_command_to_its_last(home: Path) -> None:
    steps = PAGE.commands()
    one, script = (
        "fairwarning serve --config one.toml",
        'python3 act_on_events.py echo "restarting {machine}"',
    )
    nodes = [f"fairwarning serve --config node{number}.toml" for number in (1, 2, 3)]
    with reader(home) as person:
        person.follow(steps[0])
        write_files(person)

        # One node.
        for step in up_to(steps, "(umask", "fairwarning serve --config"):
            person.follow(step)
        person.wait(lambda: "server_started" in person.output(one), "one node starts")
        outputs = [person.follow(step) for step in up_to(steps, "cd fleet", "fairwarning history")]
        assert any('"Events":[]' in output for output in outputs)
        person.wait(lambda: "restarting web-a" in person.output(script), "the script acts")
        person.wait(lambda: "finished" in person.do("fairwarning history"), "the event ends")
        for step in up_to(steps, "fairwarning db backup", "fairwarning db check"):
            person.follow(step)
        assert person.stop(script) == -signal.SIGTERM
        assert person.stop(one) == 0

        # Three nodes.
        for step in up_to(steps, "pg=", "fairwarning serve --config node3.toml"):
            person.follow(step)
        person.wait(lambda: all("server_started" in person.output(node) for node in nodes), "all start")
        for step in up_to(steps, "export FAIRWARNING_URL=http://127.0.0.1:8081", "FAIRWARNING_URL="):
            person.follow(step)
        person.stop(nodes[0], signal.SIGKILL)
        for step in up_to(steps, "export FAIRWARNING_URL=http://127.0.0.1:8082", "fairwarning complete"):
            person.follow(step)
        person.wait(lambda: "node1" not in person.do("fairwarning nodes"), "the killed node is gone")
        assert "finished" in person.do("fairwarning history")
        for step in up_to(steps, "fairwarning move", "fairwarning move"):
            assert "rack1" in person.follow(step)
        assert [person.stop(node) for node in nodes[1:]] == [0, 0]
