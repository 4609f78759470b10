"""The names of what is logged: people search and alert by them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import fairwarning
from tests.golden.comparison import Golden

PACKAGE = Path(fairwarning.__file__).parent
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def logged(source: Path) -> Iterator[str]:
    """Yield level and text of every line that a file may log."""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("log"), attr=level), args=[ast.Constant(str(text)), *_]
            ) if level in LEVELS:
                yield f"{source.relative_to(PACKAGE).parts[0].removesuffix('.py')} {level}: {text}"


def test_every_line_that_may_be_logged(golden: Golden) -> None:
    found = {line for source in PACKAGE.rglob("*.py") for line in logged(source)}

    golden("log", {"lines": "\n".join(sorted(found))})
