"""The systemd hook: stops units before an event and starts them afterwards, through systemctl."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from fairwarning.agent.hooks import program
from fairwarning.agent.hooks.hook import HookContext, HookOutcome, Now, dry_run_outcome, time_left
from fairwarning.agent.hooks.options import Options

Verb = Literal["stop", "start"]
_DONE: Mapping[Verb, str] = {"stop": "stopped", "start": "started"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Systemd:
    """Units to stop or to start, in the given order; both are safe to repeat."""

    verb: Verb
    units: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for ``{stop = [units]}`` or ``{start = [units]}``."""
        options = Options("systemd", given, ("stop", "start"))
        verb: Verb = "stop" if options.one_of("stop", "start") == "stop" else "start"
        return cls(verb=verb, units=options.words(verb), environment=environment)

    @property
    def name(self) -> str:
        """The units."""
        return f"systemd {' '.join(self.units)}"

    def describe(self) -> str:
        """Return the verb and the units."""
        return f"{self.verb} {', '.join(self.units)}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return "systemctl"

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Stop or start every unit; systemctl waits until it is done."""
        if context.dry_run:
            return dry_run_outcome(self)
        # After --, a unit whose name looks like an option is still a unit.
        result = program.run(
            ["systemctl", self.verb, "--", *self.units], time_left(context, now), self.environment
        )
        return HookOutcome(result.ok, result.message or f"{_DONE[self.verb]} {', '.join(self.units)}")
