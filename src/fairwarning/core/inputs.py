"""Texts that people and programs send us, checked: a refusal names the field it is about."""

from datetime import timedelta

from fairwarning.core.errors import InvalidError
from fairwarning.formats import durations
from fairwarning.formats.hidden_characters import first_hidden


def parse_duration(text: str, field: str = "duration") -> timedelta:
    """Return the duration that ``text`` stands for.

    Raises:
        InvalidError: the text is no duration, or the duration is longer than ten years.
    """
    try:
        return durations.parse(text)
    except ValueError as problem:
        raise InvalidError(field, str(problem)) from None


def check_visible(text: str, field: str) -> None:
    """Refuse a text that contains a hidden character.

    Raises:
        InvalidError: the text has one; the message names it.
    """
    found = first_hidden(text)
    if found is not None:
        raise InvalidError(field, f"has the character {found} in it, which cannot be seen")
