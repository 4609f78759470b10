"""Markdown for tables, and for JSON schemas as tables."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairwarning.core.document.render import Json

#: Names of JSON types as people say them.
_TYPES: Mapping[str, str] = {"string": "text", "boolean": "true or false", "array": "list"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def member(value: Json, *path: str) -> Json:
    """Return a member of a JSON object; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def members(value: Json) -> Mapping[str, Json]:
    """Return the members of a JSON object; none for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Json) -> Sequence[Json]:
    """Return the items of a JSON array; none for anything else."""
    return value if isinstance(value, list) else ()


def definition(name: str, schema: Json) -> str:
    """Return the section of one definition: what it is, and a table of its members or values."""
    text = f"### {name}\n\n"
    if described := member(schema, "description"):
        text += "".join(f"{prose(paragraph)}\n\n" for paragraph in re.split(r"\n\s*\n", str(described)))
    if values := items(member(schema, "enum")):
        return text + f"One of {', '.join(f'`{value}`' for value in values)}.\n"
    required = items(member(schema, "required"))
    rows = [_row(key, value, key in required) for key, value in members(member(schema, "properties")).items()]
    return text + (table(["member", "type", "", "meaning"], rows) if rows else "It has no members.\n")


def _row(name: str, schema: Json, required: bool) -> Sequence[str]:
    default = member(schema, "default")
    shown = "" if default in (None, "", []) or isinstance(default, dict) else f"default `{default}`".lower()
    return (f"`{name}`", kind(schema), "required" if required else shown, "; ".join(meanings(schema)))


def kind(schema: Json) -> str:
    """Return the type of a value in words, with links to definitions."""
    if reference := member(schema, "$ref"):
        name = str(reference).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if values := items(member(schema, "enum")):
        return ", ".join(f"`{value}`" for value in values)
    if "const" in members(schema):
        return f"`{member(schema, 'const')}`"
    if choices := items(member(schema, "anyOf")):
        return " or ".join(dict.fromkeys(kind(choice) for choice in choices))
    of = member(schema, "items")
    name = str(member(schema, "type") or "any value")
    return f"list of {kind(of)}" if of else _TYPES.get(name, name)


def meanings(schema: Json) -> Iterator[str]:
    """Yield the descriptions of a value, of its items and of its choices."""
    if described := member(schema, "description"):
        yield prose(str(described))
    for choice in items(member(schema, "anyOf")):
        yield from meanings(choice)
    if of := member(schema, "items"):
        yield from meanings(of)


def prose(text: str) -> str:
    """Return the text of a docstring as Markdown in one line."""
    return " ".join(text.replace("``", "`").split())
