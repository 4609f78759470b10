"""Writes the tables of docs/reference/configuration.md: ``.venv/bin/python -m tests.config.reference``."""

import re
from collections.abc import Iterator
from pathlib import Path

from fairwarning.config.serve_file import schema
from fairwarning.core.document.render import Json

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"

#: The marks around the generated part of the page.
BEGIN, END = "<!-- generated: the tables -->\n", "<!-- end of the tables -->\n"


def member(value: Json, *path: str) -> Json:
    """Return a member of a JSON object; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def tables() -> str:
    """Return the tables of the file, in their order."""
    return "\n".join(_tables())


def _tables() -> Iterator[str]:
    definitions = schema()["$defs"]
    properties = member(definitions, "ServeFile", "properties")
    assert isinstance(properties, dict)
    plain = {key: value for key, value in properties.items() if not list(_references(value))}
    yield "## Above all tables\n"
    yield from _rows(plain, [])
    for key, value in properties.items():
        for name in _references(value):
            table = member(definitions, name)
            heading = f"[[{key}]]" if member(value, "type") == "array" else f"[{key}]"
            kind = member(table, "properties", "kind", "enum")
            suffix = f', kind = "{kind[0]}"' if isinstance(kind, list) and key == "store" else ""
            yield f"## {heading}{suffix}\n\n{member(table, 'description')}\n"
            rows = member(table, "properties")
            required = member(table, "required")
            assert isinstance(rows, dict)
            yield from _rows(rows, required if isinstance(required, list) else [])


def _references(value: Json) -> Iterator[str]:
    """Yield the names of the tables that a key can be."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield str(inner).rpartition("/")[2]
            elif name in ("anyOf", "items"):
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _rows(keys: dict[str, Json], required: list[Json]) -> Iterator[str]:
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    for key, value in keys.items():
        default = "required" if key in required else _default(member(value, "default"))
        meaning = _meaning(value)
        yield f"| `{key}` | {_kind(value)} | {default} | {meaning} |"
    yield ""


def _default(value: Json) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return ""
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def _kind(value: Json) -> str:
    if isinstance(choices := member(value, "enum"), list):
        return ", ".join(f"`{choice}`" for choice in choices)
    if isinstance(kinds := member(value, "anyOf"), list):
        return " or ".join(_kind(kind) for kind in kinds if member(kind, "type") != "null")
    if member(value, "type") == "array":
        return f"list of {_kind(member(value, 'items'))}s"
    return str({"string": "text", "object": "table of texts"}.get(kind := str(member(value, "type")), kind))


def _meaning(value: Json) -> str:
    text = member(value, "description") or ""
    examples = member(value, "examples")
    if isinstance(examples, list):
        text = f"{text}, like {', '.join(f'`{example}`' for example in examples)}"
    return str(text)


def write() -> None:
    """Write the tables into the page."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n{tables()}\n{END}", PAGE.read_text()))


if __name__ == "__main__":
    write()
