"""The reference of scenarios, generated from their types; the guide must show it."""

from typing import get_args

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from fairwarning.check import scenario


def table(head: str, shared: type[Struct], kinds: tuple[type[Struct], ...]) -> str:
    """A row for each kind: its tag, what it means, its own members; those in brackets may be left out."""
    known = {field.name for field in fields(shared)}
    rows = [f"| `{head}` | means | members |", "|---|---|---|"]
    for kind in kinds:
        meaning = (kind.__doc__ or "").partition("\n")[0].replace("``", "`")
        own = [_spelled(field) for field in fields(kind) if field.name not in known]
        rows.append(f"| `{kind.__struct_config__.tag}` | {meaning} | {', '.join(own)} |")
    return "\n".join(rows)


def _spelled(field: FieldInfo) -> str:
    required = field.default is NODEFAULT and field.default_factory is NODEFAULT
    return f"`{field.name}`" if required else f"[`{field.name}`]"


def tables() -> tuple[str, str]:
    """The tables of steps and of expectations."""
    return (
        table("do", scenario.When, get_args(scenario.Action)),
        table("expect", scenario.Expectation, get_args(scenario.Expected)),
    )
