"""Characters that are invisible, or that change how the text around them is displayed.

Names are shown on terminals and pages, where such a character can move the cursor, hide text or reverse it.
New names must not contain any. Names from older releases are shown with these characters escaped.
"""

import re

#: Unicode's controls, formats, surrogates, line and paragraph separators: Cc, Cf, Cs, Zl and Zp.
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


def _regex_escape(code: int) -> str:
    # The patterns of JSON Schema allow no other escape for these characters.
    return f"\\u{code:04x}" if code < 0x10000 else chr(code)


#: The same as a character class of a regular expression, without its brackets.
HIDDEN_CLASS = "".join(f"{_regex_escape(first)}-{_regex_escape(last)}" for first, last in HIDDEN)

_HIDDEN = re.compile(f"[{HIDDEN_CLASS}]")


def first_hidden(text: str) -> str | None:
    """Return the code point of the first hidden character, such as ``U+202E``; None if there is none."""
    match = _HIDDEN.search(text)
    return None if match is None else f"U+{ord(match[0]):04X}"


def escape_hidden(text: str, keep: str = "") -> str:
    """Return a text with its hidden characters escaped, except those in ``keep``."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def escape_hidden_json(text: str) -> str:
    """Return equivalent JSON without hidden characters."""
    return _HIDDEN.sub(lambda match: _escape_json(match[0]), text)


def readable(text: str) -> str:
    """Replace the characters that a database may refuse: NUL and lone surrogates."""
    return text if text.isprintable() else text.replace("\0", "?").encode(errors="replace").decode()


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _escape_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))
