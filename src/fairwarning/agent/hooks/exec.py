"""The exec hook: runs a program, and passes it the event in its environment and on stdin."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from shlex import join
from typing import Self

from fairwarning.agent.hooks import program
from fairwarning.agent.hooks.hook import (
    DEFAULT_LIMIT,
    HookContext,
    HookOutcome,
    Now,
    dry_run_outcome,
    event_payload,
    time_left,
)
from fairwarning.agent.hooks.options import Options, words

#: Longer values are cut, because the kernel limits the environment; stdin has the full text.
MAX_VALUE_LENGTH = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A command line, run without a shell."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    limit: timedelta = DEFAULT_LIMIT

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for a list of words, or for a table with ``command`` and ``timeout``."""
        if not isinstance(given, Mapping):
            return cls(command=words("exec", given), environment=environment)
        options = Options("exec", given, ("command", "timeout"))
        options.one_of("command")
        return cls(
            command=options.words("command"),
            environment=environment,
            limit=options.duration("timeout", DEFAULT_LIMIT),
        )

    @property
    def name(self) -> str:
        """The command line."""
        return f"exec {join(self.command)}"

    def describe(self) -> str:
        """Return the command line."""
        return f"run {join(self.command)}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return self.command[0]

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Run the program; it succeeds if it exits with 0 in time."""
        if context.dry_run:
            return dry_run_outcome(self)
        result = program.run(
            self.command,
            time_left(context, now, self.limit),
            {**self.environment, **variables(context)},
            json.dumps(event_payload(context)).encode() + b"\n",
        )
        return HookOutcome(result.ok, result.message or f"{self.command[0]} exits 0")


def variables(context: HookContext) -> dict[str, str]:
    """Return the variables that describe the event; members that the document lacks are empty."""
    event = context.event
    values = {
        "FAIRWARNING_EVENT_ID": event.id,
        "FAIRWARNING_EVENT_TYPE": event.kind,
        "FAIRWARNING_EVENT_STATUS": event.status,
        "FAIRWARNING_EVENT_SOURCE": event.source,
        "FAIRWARNING_EVENT_RESOURCES": ",".join(event.resources),
        "FAIRWARNING_EVENT_NOT_BEFORE": event.not_before.isoformat() if event.not_before else "",
        "FAIRWARNING_EVENT_DESCRIPTION": event.description,
        "FAIRWARNING_EVENT_DURATION": "" if event.duration is None else str(event.duration),
        "FAIRWARNING_EVENT_PHASE": context.phase,
        "FAIRWARNING_MACHINE": context.machine,
    }
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: str) -> str:
    # A NUL or a lone surrogate in the document must not keep the program from running.
    return value.replace("\0", "").encode(errors="replace").decode()[:MAX_VALUE_LENGTH]
