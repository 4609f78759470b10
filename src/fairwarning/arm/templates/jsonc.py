"""Makes JSON of a template file as az sends it: almost JSON, in the words of whoever wrote the file.

``az deployment group create`` splices the file into its request as it is, comments and all, below a member
whose name it leaves without quotes.
"""

import re

_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_COMMENTS = re.compile(rf"({_STRING})|//[^\n]*+|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
_LOOSE = re.compile(rf"({_STRING})|\b([A-Za-z_]\w*+)(?=\s*+:)|,(?=\s*+[}}\]])", re.DOTALL)
#: A string may go over several lines.
_ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def strict(text: str) -> str:
    """Return the same text without comments and commas that end a list, and with every name in quotes."""
    return _LOOSE.sub(_quoted, _COMMENTS.sub(lambda found: found[1] or " ", text))


def _quoted(found: re.Match[str]) -> str:
    if found[1]:
        return found[1].translate(_ESCAPES)
    return f'"{found[2]}"' if found[2] else ""
