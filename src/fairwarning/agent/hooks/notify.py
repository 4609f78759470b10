"""Tells people, through the ``apprise`` program where it is installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from fairwarning.agent.hooks import program
from fairwarning.agent.hooks.hook import HookContext, HookOutcome, Now, rehearsal, time_left
from fairwarning.agent.hooks.options import Options, SettingsError

#: A message that takes longer is not worth the notice it uses up.
LIMIT = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Whom to tell: addresses, or a file of them, which keeps their secrets off the command line."""

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
        """The same for all: there is nothing to remember."""
        return "notify"

    def describe(self) -> str:
        """Return how many are told; addresses hold secrets and stay unsaid."""
        whom = [f"{len(self.urls)} addresses"] if self.urls else []
        return f"notify {' and '.join([*whom, *([f'those of {self.config}'] if self.config else [])])}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return "apprise" if self.required else None

    def run(self, occasion: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Send the message; a failure holds the approval only if telling is required."""
        if occasion.dry_run:
            return rehearsal(self)
        config = ["--config", self.config] if self.config else []
        words = ["apprise", "--title", title(occasion), "--body", body(occasion), *config, "--", *self.urls]
        result = program.run(words, time_left(occasion, now, LIMIT), self.environment)
        if result.ok:
            return HookOutcome(True, "notified")
        return HookOutcome(not self.required, f"nobody was notified: {result.message}")


def title(occasion: HookContext) -> str:
    """Return the message in one line."""
    event = occasion.event
    verb = {"prepare": "prepares for", "recover": "is back from"}[occasion.phase]
    return _plain(f"{occasion.machine} {verb} {event.kind}")


def body(occasion: HookContext) -> str:
    """Return what is known about the event, a line each."""
    event = occasion.event
    lines = {
        "event": event.id,
        "status": event.status,
        "source": event.source,
        "not before": event.not_before.isoformat() if event.not_before else "",
        "resources": ", ".join(event.resources),
        "description": event.description,
    }
    return _plain("\n".join(f"{name}: {value}" for name, value in lines.items() if value))


def _plain(words: str) -> str:
    return words.replace("\0", "").encode(errors="replace").decode()[:4000]
