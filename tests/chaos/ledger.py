"""What the server answered during a chaos run, and the promises that must hold whenever it is killed.

The ledger is kept in the test, outside the server, and uses answers only: a request without an answer may or
may not have been carried out, and nothing follows from it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

#: Documents show whole seconds.
A_SECOND = timedelta(seconds=1)


class Machine(TypedDict):
    """A machine, as the operator API lists it."""

    name: str
    scope: str
    spot: bool
    metadata: str | None
    alternatives: list[str]


class Line(TypedDict):
    """A line of the history."""

    seq: int
    at: str
    kind: str
    event: str | None
    scope: str
    by: str
    resources: list[str]


def full(machine: Machine) -> str:
    """Return the full name of a machine."""
    return f"{machine['scope']}/{machine['name']}"


@dataclass
class Ledger:
    """All answers so far, and the history as it was read."""

    lines: dict[int, Line] = field(default_factory=dict)
    stories: dict[str, list[Line]] = field(default_factory=dict)
    #: The machine that each address belonged to.
    owners: dict[str, str] = field(default_factory=dict)
    not_before: dict[str, datetime] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)
    #: The machines that approved an event, answered or not.
    askers: dict[str, set[str]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)
    #: The machines whose deletion or eviction was requested, answered or not.
    doomed: set[str] = field(default_factory=set)
    deletions: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        """Record a broken promise."""
        self.violations.append(text)

    def reads(self, machine: str, incarnation: int) -> None:
        """Check the incarnation that a machine was shown: it never decreases."""
        before = self.incarnations.get(machine, 0)
        if incarnation < before:
            self.complain(f"{machine} was shown document {incarnation} after {before}")
        self.incarnations[machine] = max(before, incarnation)

    def meets(self, machine: str, name: str) -> None:
        """Check the name that the endpoint at a machine's address returns: it is that machine's name."""
        if name != machine.rpartition("/")[2]:
            self.complain(f"{machine} was taken for {name}")

    def learn(self, machines: Iterable[Machine]) -> None:
        """Check a list of the fleet: an address never changes its machine, and created machines exist."""
        there = set()
        for machine in machines:
            name = full(machine)
            there.add(name)
            for address in (machine["metadata"], *machine["alternatives"]):
                if address is not None and self.owners.setdefault(address, name) != name:
                    self.complain(f"{address} belonged to {self.owners[address]} and is now {name}'s")
        for name in sorted(self.created - there - self.doomed):
            self.complain(f"{name} was created and is gone")
        for event, name in self.deletions.items():
            if name in there and "finished" in self.kinds(event):
                self.complain(f"{name} was deleted by {event} and is there")

    def append(self, lines: Iterable[Line]) -> None:
        """Add lines of the history: a line that was read once never changes."""
        for line in lines:
            if line["seq"] not in self.lines:
                self.lines[line["seq"]] = line
                self.stories.setdefault(line["event"] or "", []).append(line)
            elif self.lines[line["seq"]] != line:
                self.complain(f"line {line['seq']} was {self.lines[line['seq']]} and is now {line}")

    def audit(self) -> None:
        """Compare the history with the answers and the announcements."""
        for event in sorted(self.announced):
            if not self.kinds(event) & {"scheduled", "started"}:
                self.complain(f"{event} was announced and is not in the history")
        for event in sorted(self.approved):
            if not self.kinds(event) & {"approved", "started", "cancelled"}:
                self.complain(f"the approval of {event} was answered and is not in the history")
        for event in sorted(self.cancelled):
            if "cancelled" not in self.kinds(event):
                self.complain(f"the end of {event} was answered and is not in the history")
        guests = {owner.rpartition("/")[2] for owner in self.owners.values()}
        for line in self.lines.values():
            name = line["event"] or ""
            if line["kind"] == "started" and name in self.not_before and self._early(name, line):
                self.complain(f"{name} started at {line['at']}, before {self.not_before[name]}")
            if line["kind"] == "approved" and line["by"] in guests - self.askers.get(name, set()):
                self.complain(f"{name} was approved by {line['by']}, who never asked for it")

    def kinds(self, event: str) -> set[str]:
        """Return the kinds of an event's lines in the history."""
        return {line["kind"] for line in self.stories.get(event, ())}

    def _early(self, event: str, started: Line) -> bool:
        at = datetime.fromisoformat(started["at"])
        if at > self.not_before[event] - A_SECOND:
            return False
        earlier = (line for line in self.stories[event] if line["seq"] < started["seq"])
        return all(line["kind"] != "approved" for line in earlier)
