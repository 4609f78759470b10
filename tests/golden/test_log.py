"""The loggers, levels and texts of all log lines: people search and alert by them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import fairwarning
from tests.golden.comparison import Golden

PACKAGE = Path(fairwarning.__file__).parent
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def log_calls(source: Path) -> Iterator[str]:
    """Yield the logger, the level and the text of every log call in a file."""
    logger = ""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Assign([ast.Name("log")], ast.Call(args=[ast.Constant(str(name))])):
                logger = name.removeprefix("fairwarning.")
            case ast.Call(
                func=ast.Attribute(value=ast.Name("log"), attr=level), args=[ast.Constant(str(text)), *_]
            ) if level in LEVELS:
                yield f"{logger} {level}: {text}"


def test_every_log_line(golden: Golden) -> None:
    lines = {line for source in PACKAGE.rglob("*.py") for line in log_calls(source)}

    golden("log", {"lines": "\n".join(sorted(lines))})
