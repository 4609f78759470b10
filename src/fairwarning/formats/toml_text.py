"""Reads TOML in time that is in proportion to its length, and says where it is wrong.

The parser of the standard library calls itself for every level of arrays and tables, and takes a time that
grows with the square of the parts of a key. No setting needs either.
"""

import re
import tomllib
from typing import TypeAlias

#: What settings consist of; TOML's dates are no settings.
TomlValue: TypeAlias = bool | int | float | str | list["TomlValue"] | dict[str, "TomlValue"] | None
Table: TypeAlias = dict[str, TomlValue]

#: The most parts of a key, as in ``a.b.c``.
MOST_PARTS = 16
#: The most levels of arrays and tables inside each other.
DEEPEST = 100

#: Texts and comments, which may contain anything; a text without an end reaches as far as it may.
_OPAQUE = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*+(?:"|$)'
    r"|'[^'\n]*+(?:'|$)"
    r"|#[^\n]*+",
    re.DOTALL | re.MULTILINE,
)
_KEY = re.compile(r"[\w. \t-]++")
_BRACKET = re.compile(r"[\[\]{}]")
_LONG_NUMBER = re.compile(r"\d[\d_]{100}")


def parse_toml(content: bytes) -> Table:
    """Return the tables of a text.

    Raises:
        ValueError: the text is not TOML, or has what no settings need; says where.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        raise _problem("is not text in UTF-8", content[: problem.start].decode()) from None
    _check_shape(_OPAQUE.sub(_emptied, text))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"is not TOML: {problem}") from problem


def _emptied(opaque: re.Match[str]) -> str:
    """Return what stands for a text or a comment: as many lines, and a part of a key."""
    return "_" + "\n" * opaque[0].count("\n")


def _check_shape(text: str) -> None:
    """Check what the parser would not survive, or not in time."""
    for key in _KEY.finditer(text):
        if key[0].count(".") >= MOST_PARTS:
            raise _problem(f"has a key of more than {MOST_PARTS} parts", text[: key.start()])
    if (number := _LONG_NUMBER.search(text)) is not None:
        raise _problem("has a number that is too long", text[: number.start()])
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > DEEPEST:
            raise _problem("nests too deeply", text[: bracket.start()])


def _problem(problem: str, before: str) -> ValueError:
    return ValueError(f"{problem} (at line {before.count(chr(10)) + 1})")
