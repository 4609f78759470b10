"""Machine numbers: a machine's port and address follow from its number, which never changes.

A machine gets a number when it first joins the fleet. The number is stored before any listener opens for
the machine, and no other machine of the same data directory ever gets it, even after the machine is
deleted. A machine is known by its scope and name; a machine that is created again under its name gets the
same number.

A fleet may have a million machines, and their names mostly count up (``web_0``, ``web_1`` …). So numbers
are stored as runs: one run holds the first number, the name prefix, the first name suffix, the step between
suffixes and the length. Runs are stored in pages of ``PAGE``; a new machine rewrites one page.

    FairWarningError
    └── NumbersDamagedError   the stored numbers cannot be read
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

#: Runs that are stored under one key.
PAGE = 256

#: A name that ends in a number without leading zeros.
_NUMBERED_NAME = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})", re.ASCII)

#: The scope of reserved numbers, which belong to no machine.
_NO_SCOPE = ScopeId("")

#: The suffix of a name that does not end in a number.
_NO_SUFFIX = -1

_first, _start = attrgetter("first"), attrgetter("start")


class NumbersDamagedError(FairWarningError):
    """The stored machine numbers cannot be read."""

    status_hint = 500

    def __init__(self, key: str) -> None:
        super().__init__(f"cannot read the machine numbers: entry {key} is damaged")
        self.key = key


class Notes(Protocol):
    """The part of a store that keeps machine numbers."""

    async def put_value(self, key: str, value: str | None) -> None:
        """Store a text; it is durable once this returns."""
        ...

    async def get_value(self, key: str) -> str | None:
        """Return a stored text."""
        ...


@dataclass(slots=True)
class NumberRun:
    """Consecutive numbers and their machines; without a scope, the numbers are reserved."""

    first: int
    scope: ScopeId = _NO_SCOPE
    prefix: str = ""
    start: int = _NO_SUFFIX
    step: int = 1
    length: int = 1

    def name(self, offset: int) -> VmName:
        """Return the name of the machine at a position in the run."""
        if self.start == _NO_SUFFIX:
            return VmName(self.prefix)
        return VmName(f"{self.prefix}{self.start + offset * self.step}")

    def offset(self, suffix: int) -> int | None:
        """Return the position of the name with a suffix."""
        offset, remainder = divmod(suffix - self.start, self.step)
        return offset if not remainder and 0 <= offset < self.length else None

    def continues_with(self, scope: ScopeId, prefix: str, suffix: int) -> bool:
        """Whether a machine is the next of this run."""
        if self.scope != scope or self.prefix != prefix or self.start == _NO_SUFFIX:
            return False
        if self.length == 1:
            return suffix > self.start
        return suffix == self.start + self.length * self.step

    def row(self) -> tuple[int, str, str, int, int, int]:
        """Return the run as it is stored."""
        return self.first, self.scope, self.prefix, self.start, self.step, self.length

    def extend(self, suffix: int) -> None:
        """Add the next machine; the second machine of a run determines the step."""
        if self.length == 1:
            self.step = suffix - self.start
        self.length += 1


class MachineNumbers:
    """The number of every machine that ever was in the fleet."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        #: All runs in the order of their storage; the first ``_stored`` of them are stored.
        self._runs: list[NumberRun] = []
        self._stored = 0
        #: The runs of machines: by number, and by scope and prefix in the order of the suffixes.
        self._by_number: list[NumberRun] = []
        self._by_name: dict[tuple[ScopeId, str], list[NumberRun]] = {}
        self._reserved: set[int] = set()
        self._next = 0

    async def load(self) -> None:
        """Read the stored numbers; earlier versions stored ports alone, under the key ``slots``."""
        runs: list[NumberRun] = []
        for key in map(_key, count()):
            text = await self._notes.get_value(key)
            if text is None:
                break
            runs += _read(key, text)
        self._stored = len(runs)
        if not runs and (text := await self._notes.get_value("slots")) is not None:
            runs = _read_slots(text)
        for run in runs:
            self._append(run)

    async def assign(self, machines: Sequence[MachineRef]) -> list[int]:
        """Return the numbers of machines; a machine without a number gets the next, stored on return."""
        numbers = []
        index, run, offset = -1, NumberRun(0), 0
        for machine in machines:
            # Most machines come in the order of their numbers, so the next run is tried first.
            offset += 1
            if offset == run.length and index + 1 < len(self._by_number):
                index, offset = index + 1, 0
                run = self._by_number[index]
            if offset >= run.length or machine.scope != run.scope or machine.name != run.name(offset):
                index, run, offset = self._find_or_add(machine)
            numbers.append(run.first + offset)
        await self._store()
        return numbers

    async def reserve(self, numbers: Iterable[int]) -> None:
        """Give these numbers to no machine."""
        for number in numbers:
            if number not in self._reserved:
                self._append(NumberRun(number))
        await self._store()

    def number(self, machine: MachineRef) -> int | None:
        """Return the number of a machine."""
        position = self._find(machine.scope, *_split(machine.name))
        return None if position is None else position[0].first + position[1]

    def owner(self, number: int) -> MachineRef | None:
        """Return the machine that has a number."""
        index = self._run_index(number)
        if index < 0:
            return None
        run = self._by_number[index]
        offset = number - run.first
        return MachineRef(run.scope, run.name(offset)) if offset < run.length else None

    def _run_index(self, number: int) -> int:
        """Return the index of the run that has a number, if any has."""
        return bisect_right(self._by_number, number, key=_first) - 1

    def _find_or_add(self, machine: MachineRef) -> tuple[int, NumberRun, int]:
        """Return the index of a machine's run, the run, and the machine's offset in it."""
        prefix, suffix = _split(machine.name)
        position = self._find(machine.scope, prefix, suffix)
        if position is not None:
            run, offset = position
            return self._run_index(run.first), run, offset
        run = self._add(machine.scope, prefix, suffix)
        return len(self._by_number) - 1, run, run.length - 1

    def _find(self, scope: ScopeId, prefix: str, suffix: int) -> tuple[NumberRun, int] | None:
        runs = self._by_name.get((scope, prefix), ())
        # The last run that starts at or before the suffix has it, unless the steps of several runs interlock.
        for index in range(bisect_right(runs, suffix, key=_start) - 1, -1, -1):
            offset = runs[index].offset(suffix)
            if offset is not None:
                return runs[index], offset
        return None

    def _add(self, scope: ScopeId, prefix: str, suffix: int) -> NumberRun:
        """Give the next number to a machine, and return its run."""
        while self._next in self._reserved:
            self._next += 1
        last = self._runs[-1] if self._runs else NumberRun(0)
        if last.first + last.length == self._next and last.continues_with(scope, prefix, suffix):
            last.extend(suffix)
            self._stored = min(self._stored, len(self._runs) - 1)
            self._next += 1
            return last
        run = NumberRun(self._next, scope, prefix, suffix)
        self._append(run)
        return run

    def _append(self, run: NumberRun) -> None:
        self._runs.append(run)
        if run.scope == _NO_SCOPE:
            self._reserved.add(run.first)
            return
        self._by_number.append(run)
        insort(self._by_name.setdefault((run.scope, run.prefix), []), run, key=_start)
        self._next = run.first + run.length

    async def _store(self) -> None:
        while self._stored < len(self._runs):
            page = self._stored // PAGE
            runs = self._runs[page * PAGE : (page + 1) * PAGE]
            await self._notes.put_value(_key(page), json.dumps([run.row() for run in runs]))
            self._stored = page * PAGE + len(runs)


def _key(page: int) -> str:
    return f"numbers/{page}"


def _split(name: VmName) -> tuple[str, int]:
    """Return the prefix of a name, and the number it ends in."""
    match = _NUMBERED_NAME.fullmatch(name)
    return (name, _NO_SUFFIX) if match is None else (match[1], int(match[2]))


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
    """Return the runs for stored ports, in the order of the ports."""
    try:
        slots = sorted((int(slot), str(full)) for full, slot in json.loads(text).items())
    except (ValueError, TypeError, AttributeError) as problem:
        raise NumbersDamagedError("slots") from problem
    runs = []
    for slot, full in slots:
        scope, _, name = full.rpartition("/")
        prefix, suffix = _split(VmName(name))
        runs.append(NumberRun(slot, ScopeId(scope), prefix, suffix))
    return runs
