"""Guests behind HAProxy, with the settings of the guide, while nodes lose their database."""

import sys
import time
from pathlib import Path

import pytest

from fairwarning.core.policy import STALE_AFTER
from tests.cli.server import until
from tests.postgres import new_database
from tests.real.balanced_nodes import Guest, running_nodes
from tests.real.namespaces import Namespace
from tests.real.server import FAIRWARNING

pytestmark = [pytest.mark.netns, pytest.mark.needs("root", "ip", "iptables", "haproxy", "curl", "unshare")]

AFTER = STALE_AFTER.total_seconds()
#: The shortest notice of all, that of a Spot eviction, in seconds.
NOTICE = 30.0
#: How long an answer may be under way, in seconds: other tests run at the same time.
UNDER_WAY = 2.0

REFUSED = "ip route {} prohibit 10.77.1.20", "add", "del"
SILENT = "iptables -{} OUTPUT -d 10.77.1.20 -j DROP", "A", "D"


def switch(node: Namespace, way: tuple[str, str, str], *, cut: bool) -> None:
    """Cut a node off from its database and from nothing else, or undo that."""
    command, add, remove = way
    node.run(*command.format(add if cut else remove).split())


@pytest.mark.story
@pytest.mark.timeout(300)
@pytest.mark.rule("R-28", "R-29")
@pytest.mark.runs("docs/guides/high-availability.md", "^ip ", "^iptables ", "^haproxy ")
@pytest.mark.parametrize("way", [REFUSED, SILENT], ids=["refused at once", "in silence"])
def test_guests_of_a_node_that_has_lost_only_its_database_are_warned_in_time(
    tmp_path: Path, way: tuple[str, str, str]
) -> None:
    with running_nodes(new_database(), tmp_path) as drill:
        nodes = drill.network.nodes
        until(lambda: any(map(drill.guests_of, nodes)), "a node sees the address of a guest")
        cut_off, other, *_ = sorted(nodes, key=lambda node: -len(drill.guests_of(node)))

        switch(cut_off, way, cut=True)
        lost = time.monotonic()
        other.run(FAIRWARNING, "cause", "restart", "web-0", "--notice", f"{NOTICE:.0f}s")
        announced = time.monotonic()
        until(lambda: all(guest.said("Reboot") for guest in drill.guests), "all guests are warned", 1000)
        until(lambda: time.monotonic() > lost + AFTER + 2 * UNDER_WAY, "the node is stale")

    warned = [answer.at - announced for guest in drill.guests if (answer := guest.said("Reboot"))]
    late = [answer for answer in drill.answers if answer.at > lost + AFTER + UNDER_WAY]
    sys.stdout.write(f"warned after {min(warned):.1f} to {max(warned):.1f} s\n")
    assert max(warned) < NOTICE - UNDER_WAY
    assert late
    assert [answer for answer in late if answer.status == 200 and "Reboot" not in answer.body] == []


@pytest.mark.timeout(300)
@pytest.mark.rule("R-29")
def test_without_a_ready_node_guests_are_answered_from_memory_and_then_refused(tmp_path: Path) -> None:
    with running_nodes(new_database(), tmp_path) as drill:
        lost = time.monotonic()
        for node in drill.network.nodes:
            switch(node, REFUSED, cut=True)
        until(lambda: all(map(is_refused, drill.guests)), "all guests are refused", 1000)
        for node in drill.network.nodes:
            switch(node, REFUSED, cut=False)
        until(lambda: all(guest.last.status == 200 for guest in drill.guests), "all are answered again")

    early = [answer.status for answer in drill.answers if lost < answer.at < lost + AFTER - UNDER_WAY]
    assert set(early) == {200}


def is_refused(guest: Guest) -> bool:
    """Whether the last answer is that of a stale node, and not of HAProxy."""
    return (guest.last.status, guest.last.body) == (503, '{"error":"Service unavailable"}')
