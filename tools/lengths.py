"""Refuse files and functions that are too long to be read in one go; ruff has no rule for either."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "tests", "bench", "examples", "packaging", "tools")
FILE, FUNCTION = 600, 60


def complaints(path: Path) -> Iterator[str]:
    """Yield what is too long in one file."""
    text = path.read_text()
    if (length := text.count("\n")) >= FILE:
        yield f"{path}: {length} lines; a file stays under {FILE}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length >= FUNCTION:
                yield f"{path}:{node.lineno}: {node.name}: {length} lines; a function stays under {FUNCTION}"


if __name__ == "__main__":
    files = (path for folder in FOLDERS for path in sorted(Path(folder).rglob("*.py")))
    found = [one for path in files for one in complaints(path)]
    print(*found, sep="\n", end="\n" * bool(found))
    sys.exit(bool(found))
