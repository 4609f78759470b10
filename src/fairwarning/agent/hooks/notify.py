"""The notify hook: sends a message to people through the ``apprise`` program."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from fairwarning.agent.hooks import program
from fairwarning.agent.hooks.hook import HookContext, HookOutcome, Now, dry_run_outcome, time_left
from fairwarning.agent.hooks.options import Options, SettingsError

#: A message that takes longer would use up too much of the notice.
LIMIT = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """The receivers: addresses, or a file of them, which keeps their secrets off the command line."""

    urls: tuple[str, ...]
    config: str | None
    required: bool
    environment: Mapping[str, str]

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for a table with ``urls``, ``config`` and ``required``."""
        options = Options("notify", given, ("urls", "config", "required"))
        urls, config = options.words("urls"), options.text("config")
        if not urls and config is None:
            raise SettingsError("notify", "needs urls or config")
        return cls(urls=urls, config=config, required=options.flag("required"), environment=environment)

    @property
    def name(self) -> str:
        """The same for all receivers, because the hook keeps no token."""
        return "notify"

    def describe(self) -> str:
        """Return the number of receivers; addresses hold secrets and are not shown."""
        urls = [f"{len(self.urls)} addresses"] if self.urls else []
        config = [f"those of {self.config}"] if self.config else []
        return f"notify {' and '.join([*urls, *config])}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return "apprise" if self.required else None

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Send the message; a failure holds the approval only if ``required`` is set."""
        if context.dry_run:
            return dry_run_outcome(self)
        config = ["--config", self.config] if self.config else []
        command = ["apprise", "--title", title(context), "--body", body(context), *config, "--", *self.urls]
        result = program.run(command, time_left(context, now, LIMIT), self.environment)
        if result.ok:
            return HookOutcome(True, "notified")
        return HookOutcome(not self.required, f"notification failed: {result.message}")


def title(context: HookContext) -> str:
    """Return the title of the message."""
    event = context.event
    verb = {"prepare": "prepares for", "recover": "is back from"}[context.phase]
    return _plain(f"{context.machine} {verb} {event.kind}")


def body(context: HookContext) -> str:
    """Return the body of the message: the event, one member per line."""
    event = context.event
    lines = {
        "event": event.id,
        "status": event.status,
        "source": event.source,
        "not before": event.not_before.isoformat() if event.not_before else "",
        "resources": ", ".join(event.resources),
        "description": event.description,
    }
    return _plain("\n".join(f"{name}: {value}" for name, value in lines.items() if value))


def _plain(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()[:4000]
