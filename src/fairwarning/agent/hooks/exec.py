"""Runs a program of the machine's owner, which learns everything about the event."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from shlex import join
from typing import Self

from fairwarning.agent.hooks import program
from fairwarning.agent.hooks.hook import PATIENCE, HookContext, HookOutcome, Now, facts, rehearsal, time_left
from fairwarning.agent.hooks.options import Options, words

#: Longer values are cut: the kernel refuses a program with too much environment, and stdin has it all.
LONGEST_VALUE = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A command line, run without a shell."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    limit: timedelta = PATIENCE

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for a list of words, or for a table with ``command`` and ``timeout``."""
        if not isinstance(given, Mapping):
            return cls(words=words("exec", given), environment=environment)
        options = Options("exec", given, ("command", "timeout"))
        options.one_of("command")
        return cls(
            words=options.words("command"),
            environment=environment,
            limit=options.duration("timeout", PATIENCE),
        )

    @property
    def name(self) -> str:
        """The command line."""
        return f"exec {join(self.words)}"

    def describe(self) -> str:
        """Return the command line as a wish."""
        return f"run {join(self.words)}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return self.words[0]

    def run(self, occasion: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Run the program; only exit code 0 in time is success."""
        if occasion.dry_run:
            return rehearsal(self)
        result = program.run(
            self.words,
            time_left(occasion, now, self.limit),
            {**self.environment, **variables(occasion)},
            json.dumps(facts(occasion)).encode() + b"\n",
        )
        return HookOutcome(result.ok, result.message or f"{self.words[0]} exits 0")


def variables(occasion: HookContext) -> dict[str, str]:
    """Return the environment that tells of the event; what the document does not say is empty."""
    event = occasion.event
    told = {
        "FAIRWARNING_EVENT_ID": event.id,
        "FAIRWARNING_EVENT_TYPE": event.kind,
        "FAIRWARNING_EVENT_STATUS": event.status,
        "FAIRWARNING_EVENT_SOURCE": event.source,
        "FAIRWARNING_EVENT_RESOURCES": ",".join(event.resources),
        "FAIRWARNING_EVENT_NOT_BEFORE": event.not_before.isoformat() if event.not_before else "",
        "FAIRWARNING_EVENT_DESCRIPTION": event.description,
        "FAIRWARNING_EVENT_DURATION": "" if event.duration is None else str(event.duration),
        "FAIRWARNING_EVENT_PHASE": occasion.phase,
        "FAIRWARNING_MACHINE": occasion.machine,
    }
    return {name: _plain(value) for name, value in told.items()}


def _plain(value: str) -> str:
    # The document comes from outside: a NUL or half a surrogate pair must not keep the drain from running.
    return value.replace("\0", "").encode(errors="replace").decode()[:LONGEST_VALUE]
