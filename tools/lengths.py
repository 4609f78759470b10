"""Reports files and functions that are too large; ruff has no rule for them."""

import ast
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

FOLDERS = ("src", "tests", "bench", "examples", "packaging", "tools")

#: Limits, inclusive: lines of a file, lines of a function.
FILE, FUNCTION = 600, 60


def long_parts(path: Path) -> Iterator[str]:
    """Yield a complaint if a file is too long, and one for each of its functions that is."""
    text = path.read_text()
    if (length := text.count("\n")) > FILE:
        yield f"{path}: {length} lines; a file has at most {FILE}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION:
                yield f"{path}:{node.lineno}: {node.name}: {length} lines; a function has at most {FUNCTION}"


if __name__ == "__main__":
    files = (path for folder in FOLDERS for path in sorted(Path(folder).rglob("*.py")))
    complaints = [*chain.from_iterable(map(long_parts, files))]
    print(*complaints, sep="\n", end="\n" * bool(complaints))
    sys.exit(bool(complaints))
