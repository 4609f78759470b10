"""Turns a template file as az sends it into JSON.

``az deployment group create`` copies the file into its request unchanged, with comments, below a member whose
name has no quotes.
"""

import re

_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_COMMENTS = re.compile(rf"({_STRING})|//[^\n]*+|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
_LOOSE = re.compile(rf"({_STRING})|\b([A-Za-z_]\w*+)(?=\s*+:)|,(?=\s*+[}}\]])", re.DOTALL)
#: Strings may contain line breaks.
_ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def to_strict_json(text: str) -> str:
    """Return the text without comments and trailing commas, and with all names in quotes."""
    return _LOOSE.sub(_quote, _COMMENTS.sub(lambda match: match[1] or " ", text))


def _quote(match: re.Match[str]) -> str:
    if match[1]:
        return match[1].translate(_ESCAPES)
    return f'"{match[2]}"' if match[2] else ""
