"""The settings of a step, read so that every refusal names the field it is about."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.inputs import parse_duration


class SettingsError(FairWarningError, ValueError):
    """The file of the agent says something that makes no sense."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Options:
    """The table behind a hook's name."""

    def __init__(self, field: str, given: object, allowed: Sequence[str]) -> None:
        if not isinstance(given, Mapping):
            raise SettingsError(field, f"must be a table with some of {', '.join(allowed)}")
        self._field = field
        self._given: dict[str, object] = {str(name): value for name, value in given.items()}
        for name in self._given:
            if name not in allowed:
                raise SettingsError(self.field(name), f"is not known here; known are {', '.join(allowed)}")

    def field(self, name: str) -> str:
        """Return the full name of an option, as refusals use it."""
        return f"{self._field}.{name}"

    def one_of(self, *names: str) -> str:
        """Return which of the options is given; it must be exactly one."""
        found = [name for name in names if name in self._given]
        if len(found) != 1:
            raise SettingsError(self._field, f"needs exactly one of {', '.join(names)}")
        return found[0]

    def text(self, name: str) -> str | None:
        """Return a text that is not empty, if it is given."""
        return text(self.field(name), self._given[name]) if name in self._given else None

    def needed(self, name: str) -> str:
        """Return a text that must be given."""
        return text(self.field(name), self._given.get(name))

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; none if it is not given."""
        return words(self.field(name), self._given[name]) if name in self._given else ()

    def flag(self, name: str) -> bool:
        """Return a switch; off if it is not given."""
        value = self._given.get(name, False)
        if not isinstance(value, bool):
            raise SettingsError(self.field(name), "must be true or false")
        return value

    def text_or_true(self, name: str) -> str | None:
        """Return a text, or nothing if the option is just switched on."""
        return None if self._given.get(name) is True else self.needed(name)

    def duration(self, name: str, default: timedelta) -> timedelta:
        """Return a duration."""
        if name not in self._given:
            return default
        try:
            return parse_duration(self.needed(name), self.field(name))
        except InvalidError as refusal:
            raise SettingsError(refusal.field, refusal.problem) from None


def text(field: str, value: object) -> str:
    """Return ``value`` if it is a text that a program can be given."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SettingsError(field, "must be a text that is not empty")
    return value


def words(field: str, value: object) -> tuple[str, ...]:
    """Return ``value`` if it is a list of texts, at least one."""
    if not isinstance(value, list | tuple) or not value:
        raise SettingsError(field, "must be a list of texts, at least one")
    return tuple(text(f"{field}[{number}]", word) for number, word in enumerate(value))
