"""The guide to the maintenance of a host does what it says, from its first command to its last."""

from pathlib import Path

import pytest

from tests.docs.reader import reader
from tests.pages import Page

PAGE = Page("docs/guides/maintain-a-host.md")
SERVE = "fairwarning serve --config fleet.toml"

#: What the commands print, by their beginnings, in the order of the page.
PRINTED = (
    ("fairwarning serve --check", "down at once: at most 1 of each scope, 1 of each db"),
    ("fairwarning cause host-reboot --host kvm-17 --at", "would be scheduled, not before Thu "),
    ("fairwarning cause host-reboot --host kvm-17 --at", "scheduled, not before Thu "),
    ("fairwarning host list", "globex  rack=B  host-reboot, not before Thu"),
    ("fairwarning host show kvm-17", "globex  globex    silent: no guest polls"),
    ("fairwarning move globex kvm-19", "kvm-19"),
    ("fairwarning host show kvm-17", "approval of acme"),
    ("fairwarning move globex kvm-17", "kvm-17"),
    ("fairwarning postpone", "Scheduled"),
    ("fairwarning host cancel kvm-17", "Gone"),
    ("fairwarning cause host-reboot --host kvm-17 --host kvm-18", "Scheduled"),
    ("fairwarning approve", "approved"),
    ("fairwarning host show kvm-18", "budget db=orders: globex/globex is down"),
    ("fairwarning host complete kvm-17", "Gone"),
    ("fairwarning host show kvm-18", "kvm-18 is in-maintenance"),
    ("fairwarning host complete kvm-18", "Gone"),
    ("fairwarning history", "blocked"),
    ("fairwarning hold", ""),
    ("fairwarning cause host-reboot --host kvm-18", "Scheduled"),
    ("fairwarning events", "hold: storage is rebuilding"),
    ("fairwarning host cancel kvm-18", "Gone"),
    ("fairwarning unhold", ""),
)


@pytest.mark.slow
@pytest.mark.needs("curl")
@pytest.mark.runs("docs/guides/maintain-a-host.md")
def test_the_guide_to_the_maintenance_of_a_host_is_true(home: Path) -> None:
    expected = list(PRINTED)
    with reader(home) as person:
        for step in PAGE.commands():
            printed = person.follow(step)
            if step.text.startswith("mkdir"):
                for name, text in PAGE.files().items():
                    (person.folder / name).write_text(person.here(text))
            if step.text == SERVE:
                person.wait(lambda: "server_started" in person.output(SERVE), "the server starts")
            if expected and step.text.startswith(expected[0][0]):
                assert expected.pop(0)[1] in printed, f"{step.text}\n{printed}"
        assert person.stop(SERVE) == 0
    assert expected == []
