"""The log hook: writes a line to the agent's log."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fairwarning.agent.hooks.hook import HookContext, HookOutcome, Now, dry_run_outcome
from fairwarning.agent.hooks.options import text

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A line for the log."""

    line: str

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for a string."""
        return cls(line=text("log", given))

    @property
    def name(self) -> str:
        """The same for every line, because the hook keeps no token."""
        return "log"

    def describe(self) -> str:
        """Return the line."""
        return f"log {self.line!r}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return None

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Write the line with the event's id, type and phase."""
        if context.dry_run:
            return dry_run_outcome(self)
        event = context.event
        LOG.info("%s (%s, %s of event %s)", self.line, event.kind, context.phase, event.id)
        return HookOutcome(True, self.line)
