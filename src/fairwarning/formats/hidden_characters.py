"""Characters that nobody sees, or that turn around what others see.

Names end up on terminals and pages, where such a character steers, hides or reverses what stands beside it.
They are refused where people name things, and shown escaped where an older release kept them.
"""

import re

#: Unicode's controls, formats, surrogates and separators of lines and paragraphs: Cc, Cf, Cs, Zl and Zp.
HIDDEN: tuple[tuple[int, int], ...] = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x890, 0x891),
    (0x8E2, 0x8E2),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x206F),
    (0xD800, 0xDFFF),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0001, 0xE0001),
    (0xE0020, 0xE007F),
)


def _spelled(code: int) -> str:
    # JSON Schema's patterns know no other way to write these.
    return f"\\u{code:04x}" if code < 0x10000 else chr(code)


#: The same as a class of characters of a regular expression, without its brackets.
HIDDEN_CLASS = "".join(f"{_spelled(first)}-{_spelled(last)}" for first, last in HIDDEN)

_HIDDEN = re.compile(f"[{HIDDEN_CLASS}]")


def first_hidden(text: str) -> str | None:
    """Return the first hidden character of a text by its number, such as ``U+202E``; None without one."""
    found = _HIDDEN.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"


def escape_hidden(text: str, keep: str = "") -> str:
    """Return a text with every hidden character escaped, save those to keep."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def escape_hidden_json(text: str) -> str:
    """Return JSON that means the same and has no hidden characters in it."""
    return _HIDDEN.sub(lambda found: _escaped_json(found[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _escaped_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
