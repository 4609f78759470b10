"""SVG as text: elements whose words and attributes are escaped, whatever they contain."""

import re
from collections.abc import Iterable
from html import escape

from fairwarning.formats.hidden_characters import escape_hidden

#: XML has no way to write these, escaped or not.
_UNWRITABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Attribute = str | float | None


def words(text: str, most: int | None = None) -> str:
    """Return a text as it may stand in XML, shortened to ``most`` characters."""
    legible = _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", escape_hidden(text, keep="\t\n\r"))
    if most is not None and len(legible) > most:
        legible = legible[: most - 1].rstrip() + "…"
    return escape(legible)


def tag(name: str, content: str | Iterable[str] = "", /, **attributes: Attribute) -> str:
    """Return an element around content that is SVG already; ``_`` in the name of an attribute is a dash."""
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = content if isinstance(content, str) else "".join(content)
    return f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>"


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return words(value)
    return f"{value:.1f}".rstrip("0").rstrip(".")
