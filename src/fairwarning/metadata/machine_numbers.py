"""The numbers of machines: a machine's port and address follow from its number, which is its own for good.

A number is given to a machine of the fleet once, is kept before anybody listens for the machine, and is given
to no other machine of the same data directory, not even after its own is deleted. A machine is known by its
scope and its name, as guests know it: made again under its name, it has its number back.

There may be a million machines, whose names mostly count up (``web_0``, ``web_1`` …), so numbers are kept as
runs: one entry says which number the first name has, how the names go on, and how many there are.

    FairWarningError
    └── NumbersDamagedError   what was kept of numbers is not what was written
"""

import json
import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Protocol

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef, ScopeId, VmName

#: How many runs are written at a time: making one more machine rewrites no more than this.
PAGE = 256

#: A name and the number it ends in, as far as that is written without leading zeros.
_COUNTED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})", re.ASCII)

#: The scope of numbers that belong to no machine.
_NOBODY = ScopeId("")

#: Stands for the number of a name that ends in none.
_UNCOUNTED = -1

_first, _start = attrgetter("first"), attrgetter("start")


class NumbersDamagedError(FairWarningError):
    """The numbers of machines cannot be read."""

    status_hint = 500

    def __init__(self, key: str) -> None:
        super().__init__(f"the numbers that machines were given cannot be read: note {key} is damaged")
        self.key = key


class Notes(Protocol):
    """Where numbers are kept; every store of the engine will do."""

    async def note(self, key: str, value: str) -> None:
        """Remember a text; it is kept for good once this returns."""
        ...

    async def noted(self, key: str) -> str | None:
        """Return a text that was remembered."""
        ...


@dataclass(slots=True)
class NumberRun:
    """Numbers that follow one another, and the machines they belong to; without a scope, to no machine."""

    first: int
    scope: ScopeId = _NOBODY
    prefix: str = ""
    start: int = _UNCOUNTED
    step: int = 1
    length: int = 1

    def name(self, offset: int) -> VmName:
        """Return the name of a machine by its place in the run."""
        if self.start == _UNCOUNTED:
            return VmName(self.prefix)
        return VmName(f"{self.prefix}{self.start + offset * self.step}")

    def offset(self, counted: int) -> int | None:
        """Return the place of the name that ends in a number."""
        offset, rest = divmod(counted - self.start, self.step)
        return offset if not rest and 0 <= offset < self.length else None

    def goes_on(self, scope: ScopeId, prefix: str, counted: int) -> bool:
        """Whether a machine is the next one of this run."""
        if self.scope != scope or self.prefix != prefix or self.start == _UNCOUNTED:
            return False
        if self.length == 1:
            return counted > self.start
        return counted == self.start + self.length * self.step

    def row(self) -> tuple[int, str, str, int, int, int]:
        """Return the run as it is written."""
        return self.first, self.scope, self.prefix, self.start, self.step, self.length

    def extend(self, counted: int) -> None:
        """Take in the next machine; the second one says in which steps the names count."""
        if self.length == 1:
            self.step = counted - self.start
        self.length += 1


class MachineNumbers:
    """Which number each machine has that ever was in the fleet."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        #: Everything in order of its writing, of which as much is kept as ``_kept`` says.
        self._runs: list[NumberRun] = []
        self._kept = 0
        #: The runs of machines, in order of their numbers, and by scope and prefix in order of their names.
        self._given: list[NumberRun] = []
        self._named: dict[tuple[ScopeId, str], list[NumberRun]] = {}
        self._withheld: set[int] = set()
        self._next = 0

    async def load(self) -> None:
        """Read what is kept; earlier versions kept ports alone, in one note."""
        runs: list[NumberRun] = []
        for key in map(_key, count()):
            text = await self._notes.noted(key)
            if text is None:
                break
            runs += _read(key, text)
        self._kept = len(runs)
        if not runs and (text := await self._notes.noted("slots")) is not None:
            runs = _read_slots(text)
        for run in runs:
            self._write(run)

    async def give(self, machines: Sequence[MachineRef]) -> list[int]:
        """Return the machines' numbers; who has none is given the next, and that is kept on return."""
        numbers = []
        place, run, offset = -1, NumberRun(0), 0
        for machine in machines:
            # Most machines come in the order in which they were given their numbers.
            offset += 1
            if offset == run.length and place + 1 < len(self._given):
                place, offset = place + 1, 0
                run = self._given[place]
            if offset >= run.length or machine.scope != run.scope or machine.name != run.name(offset):
                run, offset = self._find(machine) or self._add(machine)
                place = self._place(run.first)
            numbers.append(run.first + offset)
        await self._keep()
        return numbers

    async def withhold(self, numbers: Iterable[int]) -> None:
        """Give these numbers to nobody."""
        for number in numbers:
            if number not in self._withheld:
                self._write(NumberRun(number))
        await self._keep()

    def number(self, machine: MachineRef) -> int | None:
        """Return the number that a machine was given."""
        found = self._find(machine)
        return None if found is None else found[0].first + found[1]

    def owner(self, number: int) -> MachineRef | None:
        """Return the machine that a number was given to."""
        place = self._place(number)
        if place < 0:
            return None
        run = self._given[place]
        offset = number - run.first
        return MachineRef(run.scope, run.name(offset)) if offset < run.length else None

    def _place(self, number: int) -> int:
        """Return which run has a number, if any has."""
        return bisect_right(self._given, number, key=_first) - 1

    def _find(self, machine: MachineRef) -> tuple[NumberRun, int] | None:
        prefix, counted = _split(machine.name)
        runs = self._named.get((machine.scope, prefix), ())
        # The last run that begins at the name or before it has it, unless steps of several runs interlock.
        for place in range(bisect_right(runs, counted, key=_start) - 1, -1, -1):
            offset = runs[place].offset(counted)
            if offset is not None:
                return runs[place], offset
        return None

    def _add(self, machine: MachineRef) -> tuple[NumberRun, int]:
        while self._next in self._withheld:
            self._next += 1
        prefix, counted = _split(machine.name)
        last = self._runs[-1] if self._runs else NumberRun(0)
        if last.first + last.length == self._next and last.goes_on(machine.scope, prefix, counted):
            last.extend(counted)
            self._kept = min(self._kept, len(self._runs) - 1)
            self._next += 1
        else:
            last = NumberRun(self._next, machine.scope, prefix, counted)
            self._write(last)
        return last, last.length - 1

    def _write(self, run: NumberRun) -> None:
        self._runs.append(run)
        if run.scope == _NOBODY:
            self._withheld.add(run.first)
            return
        self._given.append(run)
        insort(self._named.setdefault((run.scope, run.prefix), []), run, key=_start)
        self._next = run.first + run.length

    async def _keep(self) -> None:
        while self._kept < len(self._runs):
            page = self._kept // PAGE
            runs = self._runs[page * PAGE : (page + 1) * PAGE]
            await self._notes.note(_key(page), json.dumps([run.row() for run in runs]))
            self._kept = page * PAGE + len(runs)


def _key(page: int) -> str:
    return f"numbers/{page}"


def _split(name: VmName) -> tuple[str, int]:
    """Return a name without the number it ends in, and that number."""
    found = _COUNTED.fullmatch(name)
    return (name, _UNCOUNTED) if found is None else (found[1], int(found[2]))


def _read(key: str, text: str) -> list[NumberRun]:
    try:
        runs = [
            NumberRun(int(first), ScopeId(str(scope)), str(prefix), int(start), int(step), int(length))
            for first, scope, prefix, start, step, length in json.loads(text)
        ]
    except (ValueError, TypeError) as problem:
        raise NumbersDamagedError(key) from problem
    if any(run.first < 0 or run.step < 1 or run.length < 1 for run in runs):
        raise NumbersDamagedError(key)
    return runs


def _read_slots(text: str) -> list[NumberRun]:
    """Return the numbers of machines that had ports: theirs, in the order of the ports."""
    try:
        slots = sorted((int(slot), str(full)) for full, slot in json.loads(text).items())
    except (ValueError, TypeError, AttributeError) as problem:
        raise NumbersDamagedError("slots") from problem
    runs = []
    for slot, full in slots:
        scope, _, name = full.rpartition("/")
        prefix, counted = _split(VmName(name))
        runs.append(NumberRun(slot, ScopeId(scope), prefix, counted))
    return runs
