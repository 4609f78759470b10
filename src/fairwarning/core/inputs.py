"""Checks of texts that users and programs send; a refusal names the field."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import IPv6Address, ip_address

from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.formats import durations
from fairwarning.formats.hidden_characters import first_hidden


def parse_duration(text: str, field: str = "duration") -> timedelta:
    """Parse a duration.

    Raises:
        InvalidError: ``text`` is not a duration, or the duration is longer than ten years.
    """
    try:
        return durations.parse(text)
    except ValueError as problem:
        raise InvalidError(field, str(problem)) from None


def parse_address(text: str) -> str:
    """Return an IP address in its canonical spelling; an IPv4-mapped IPv6 address becomes IPv4.

    Raises:
        InvalidError: ``text`` is not an IP address.
    """
    try:
        parsed = ip_address(text)
    except ValueError:
        raise InvalidError("address", f"{text!r} is not an IP address") from None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)


@contextmanager
def field_context(field: str) -> Iterator[None]:
    """Add the field to every refusal that the block raises."""
    try:
        yield
    except FairWarningError as error:
        error.field = field
        raise


def check_visible(text: str, field: str) -> None:
    """Refuse a text that contains a hidden character.

    Raises:
        InvalidError: ``text`` contains one; the message names it.
    """
    character = first_hidden(text)
    if character is not None:
        raise InvalidError(field, f"contains the invisible character {character}")
