"""Suggests known names for a name that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return a question with the known names that are close to an unknown one; empty if none is."""
    close = sorted(get_close_matches(name, set(known), n=most))
    return f" (did you mean {', '.join(close)}?)" if close else ""
