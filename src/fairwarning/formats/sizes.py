"""Numbers of bytes as people write them: ``500MB``."""

import re

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d{1,6})(KB|MB|GB|TB)", re.ASCII | re.IGNORECASE)


def parse(text: str) -> int:
    """Parse a number of bytes.

    Raises:
        ValueError: ``text`` is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid size {text[:40]!r} (expected e.g. 500MB, 1GB)")
    return int(match[1]) * _UNITS[match[2].upper()]
