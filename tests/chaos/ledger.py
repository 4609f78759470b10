"""What the players of a chaos run were told, and the promises that must hold whatever was killed.

The ledger lives in the test, outside the server, and learns from answers alone: a request whose answer never
came may or may not have been carried out, and nothing follows from it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

#: Documents show whole seconds.
A_SECOND = timedelta(seconds=1)


class Machine(TypedDict):
    """One machine, as the operator API lists it."""

    name: str
    scope: str
    spot: bool
    metadata: str | None
    alternatives: list[str]


class Line(TypedDict):
    """One line of the history."""

    seq: int
    at: str
    kind: str
    event: str | None
    scope: str
    by: str
    resources: list[str]


def full(machine: Machine) -> str:
    """Return the one name of a machine."""
    return f"{machine['scope']}/{machine['name']}"


@dataclass
class Ledger:
    """Everything that was answered so far, and the history as it was read."""

    lines: dict[int, Line] = field(default_factory=dict)
    stories: dict[str, list[Line]] = field(default_factory=dict)
    #: Who was known at an address, ever.
    owners: dict[str, str] = field(default_factory=dict)
    not_before: dict[str, datetime] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)
    #: Who asked for an event to start, answered or not.
    askers: dict[str, set[str]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)
    #: Machines that somebody asked to delete or to evict, answered or not.
    doomed: set[str] = field(default_factory=set)
    deletions: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        """Write down a broken promise."""
        self.violations.append(text)

    def reads(self, machine: str, incarnation: int) -> None:
        """Take the number of a document that a machine was shown: it never goes back."""
        before = self.incarnations.get(machine, 0)
        if incarnation < before:
            self.complain(f"{machine} was shown document {incarnation} after {before}")
        self.incarnations[machine] = max(before, incarnation)

    def meets(self, machine: str, name: str) -> None:
        """Take what the endpoint at a machine's address calls the machine: nobody else's name."""
        if name != machine.rpartition("/")[2]:
            self.complain(f"{machine} was taken for {name}")

    def learn(self, machines: Iterable[Machine]) -> None:
        """Take a list of the fleet: an address is one machine's for ever, and what was created is there."""
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
        """Take lines of the history: what was read once never changes."""
        for line in lines:
            if line["seq"] not in self.lines:
                self.lines[line["seq"]] = line
                self.stories.setdefault(line["event"] or "", []).append(line)
            elif self.lines[line["seq"]] != line:
                self.complain(f"line {line['seq']} was {self.lines[line['seq']]} and is now {line}")

    def audit(self) -> None:
        """Hold the history against what was answered and what was announced."""
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
        """Return what the history tells of an event."""
        return {line["kind"] for line in self.stories.get(event, ())}

    def _early(self, event: str, started: Line) -> bool:
        at = datetime.fromisoformat(started["at"])
        if at > self.not_before[event] - A_SECOND:
            return False
        earlier = (line for line in self.stories[event] if line["seq"] < started["seq"])
        return all(line["kind"] != "approved" for line in earlier)
