"""Says where answers and data disagree; with ``--prune``, removes the gaps that have closed from the data.

``.venv/bin/python -m tests.recorded`` prints each difference that no gap explains. Gaps that have closed are
removed from the pairs that name them, their lines from the lists, and their rows from docs/gaps.md.
"""

import re
import sys
from collections.abc import Iterator

from tests.recorded.findings import GAPS_PAGE, Findings, find
from tests.recorded.stories import ANSWERS


def main(arguments: list[str]) -> int:
    findings = find()
    for line in _report(findings):
        print(line)
    if arguments == ["--prune"]:
        _prune(findings)
    return 0 if findings.agree else 1


def _report(findings: Findings) -> Iterator[str]:
    for (file, pair), lines in findings.unexplained.items():
        yield f"{file}: {pair}"
        yield from (f"  + {line}" for line in lines)
    for (file, pair), gaps in findings.closed.items():
        yield f"{file}: {pair}"
        yield from (f"  - {gap}" for gap in gaps)
    yield from (f"{gap}: no pair has {line!r} any more" for gap, line in findings.idle)


def _prune(findings: Findings) -> None:
    for path in ANSWERS.glob("*.toml"):
        text = path.read_text()
        for (file, pair), gaps in findings.closed.items():
            if file == path.stem:
                text = _without_gaps(text, pair, gaps)
        for gap, line in findings.idle:
            text = _without_line(text, gap, line)
        path.write_text(re.sub(r"^\[gaps\]\n\n", "", text, flags=re.M))
    page = GAPS_PAGE.read_text()
    for gap in findings.obsolete:
        page = re.sub(rf"^\| `{gap}` \|.*\n", "", page, flags=re.M)
    GAPS_PAGE.write_text(page)


def _without_gaps(text: str, pair: str, gaps: list[str]) -> str:
    """Return a file in which a pair does not name these gaps."""
    start = text.index(f'name = "{pair}"')
    end = text.find("[[story", start)
    block = text[start:] if end < 0 else text[start:end]
    for gap in gaps:
        block = re.sub(rf'(differs = \[[^\]]*?)"{gap}"(?:, )?', r"\1", block)
    block = re.sub(r"differs = \[\]\n", "", block.replace(", ]", "]"))
    return text[:start] + block + ("" if end < 0 else text[end:])


def _without_line(text: str, gap: str, line: str) -> str:
    """Return a file in which a gap does not list a difference; a gap without differences is removed."""
    listed = re.search(rf"^{gap} = \[(.*?)\]\n", text, re.M | re.S)
    if listed is None:
        return text
    quoted = "|".join(re.escape(f"{mark}{line}{mark}") for mark in "\"'")
    kept = re.sub(rf"\s*(?:{quoted}),?", "", listed[1])
    kept = kept if kept.endswith("\n") else kept.strip().removesuffix(",")
    whole = f"{gap} = [{kept}]\n" if kept.strip() else ""
    return text[: listed.start()] + whole + text[listed.end() :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
