"""Suggests known names for a name that is not known."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType


def did_you_mean(
    name: str,
    known: Iterable[str],
    most: int = 3,
    *,
    words: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a question with the known names that are close to an unknown one; empty if none is.

    A name in another case is the known name and no other. ``words`` has further words, and the known names
    that they mean.
    """
    meant = {word.casefold(): name for word, name in (*words.items(), *((each, each) for each in known))}
    asked = name.casefold()
    close = [asked] if asked in meant else get_close_matches(asked, meant, n=most)
    return f" (did you mean {', '.join(sorted({meant[word] for word in close}))}?)" if close else ""
