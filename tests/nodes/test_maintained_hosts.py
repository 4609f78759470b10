"""The weekly job, from end to end: hosts maintained on a date, under a budget, with the tenants' consent."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.server import Row, until
from tests.cli.test_serve import EVENTS, FLEET, Serving, serving
from tests.config.files import secret
from tests.postgres import new_database

#: Two hosts with a replica of each tenant; acme and globex have addresses by which guests are known.
GUESTS = {
    "acme-1": ("acme", "kvm-17", "127.77.1.1"),
    "acme-2": ("acme", "kvm-18", "127.77.1.2"),
    "globex-1": ("globex", "kvm-17", "127.77.2.1"),
    "globex-2": ("globex", "kvm-18", "127.77.2.2"),
}
#: The guest that answers for each tenant: all machines of a set see its events.
SPEAKERS = ("acme-1", "globex-1")
STORE = FLEET.partition("[[set]]")[0].replace(
    'kind = "sqlite"\npath = "data"', 'kind = "postgres"\ndsn_file = "../dsn"\nmigrate = true'
)
TENANTS = "".join(f'[[set]]\nname = "{name}"\n' for name in ("acme", "globex"))
MACHINES = "".join(
    f'[[machine]]\nname = "{name}"\nset = "{tenant}"\nhost = "{host}"\naddress = "{address}"\n'
    for name, (tenant, host, address) in GUESTS.items()
)
BUDGET = '[[budget]]\neach = "scope"\nmost = 1\n'
ACT = Path(__file__).parents[2] / "examples" / "act_on_events.py"


@contextmanager
def acting(url: str) -> Iterator[None]:
    """Run the example that acts on started events; each takes a second."""
    words = [sys.executable, str(ACT), sys.executable, "-c", "import time; time.sleep(1)"]
    program = subprocess.Popen(words, env={**os.environ, "FAIRWARNING_URL": url}, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        program.terminate()
        program.wait(timeout=10)


def approve(node: Serving, machine: str) -> None:
    """Approve what a guest sees, as its agent would once the guest is drained."""
    with node.guest(GUESTS[machine][2]) as guest:
        until(lambda: guest.get(EVENTS).json()["Events"] != [], f"{machine} is warned")
        ids = [event["EventId"] for event in guest.get(EVENTS).json()["Events"]]
        request = {"StartRequests": [{"EventId": event_id} for event_id in ids]}
        assert guest.post(EVENTS, json=request).status_code == 200


def history(node: Serving) -> list[Row]:
    """Return the history of all events."""
    done = node.command("history", "--json")
    assert done.code == 0, done.stderr
    lines: list[Row] = json.loads(done.stdout)
    return lines


def most_down(lines: Sequence[Row], tenant: str) -> int:
    """Return how many machines of a tenant were down at once."""
    down: set[str] = set()
    most = 0
    for line in lines:
        machines = {name for name in line["resources"] if GUESTS.get(name, ("",))[0] == tenant}
        if line["kind"] == "started":
            down |= machines
        elif line["kind"] == "finished":
            down -= machines
        most = max(most, len(down))
    return most


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.rule("M-01", "M-02", "M-03", "M-05")
def test_hosts_are_maintained_on_a_date_under_a_budget_with_the_tenants_consent(tmp_path: Path) -> None:
    secret(tmp_path, "dsn", new_database())
    with ExitStack() as stack:
        nodes: list[Serving] = []
        for name in ("a", "b", "c"):
            (tmp_path / name).mkdir()
            text = STORE + BUDGET + TENANTS + MACHINES
            nodes.append(stack.enter_context(serving(tmp_path / name, text)))
        first, second, third = nodes
        for machine, (_, _, address) in GUESTS.items():
            with second.guest(address) as guest:
                assert guest.get(EVENTS).json()["Events"] == [], machine

        # Two operators at once, each on a node of their own; one repeats the request on another node.
        opens = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20)
        options = ("--at", opens.isoformat(), "--notice", "5s", "--on-silence", "ask")
        for node, host in ((first, "kvm-17"), (second, "kvm-18"), (third, "kvm-17")):
            done = node.command("cause", "host-reboot", "--host", host, "--key", "CHG-7", *options)
            assert done.code == 0, done.stderr
        for machine in SPEAKERS:
            approve(second, machine)
        assert datetime.now(UTC) < opens
        assert "window, " in second.command("host", "show", "kvm-18").stdout

        first.process.send_signal(signal.SIGKILL)
        with acting(second.url):
            until(
                lambda: sum(line["kind"] == "finished" for line in history(third)) == len(GUESTS),
                "all machines are maintained",
            )
        lines = history(third)
        hosts = json.loads(third.command("host", "list", "--json").stdout)

    scheduled = [line for line in lines if line["kind"] == "scheduled"]
    started = [line for line in lines if line["kind"] == "started"]
    assert len(scheduled) == len(started) == len(GUESTS)
    assert min(datetime.fromisoformat(line["at"]) for line in started) >= opens
    assert {line["by"] for line in started} == set(SPEAKERS)
    assert most_down(lines, "acme") == most_down(lines, "globex") == 1
    assert any(line["kind"] == "blocked" and "is down" in line["reason"] for line in lines)
    assert [host["state"] for host in hosts] == ["in-service", "in-service"]
