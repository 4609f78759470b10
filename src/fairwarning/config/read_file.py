"""Reads the file of ``fairwarning serve``: TOML, replaced in part by environment variables.

A variable replaces one key: ``FAIRWARNING_STORE__PATH`` is ``path`` in ``[store]``, and
``FAIRWARNING__DRIVER`` is ``driver`` above all tables. Commas separate the values of a list. ``[[set]]`` and
``[[machine]]`` have no variables. Unknown keys and unknown variables are errors.

    FairWarningError
    └── ConfigError   the file cannot be used; names every problem with its table and key
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from fairwarning import __version__
from fairwarning.config.operator_file import FileKind, UnusableFileError, read_operator_file
from fairwarning.config.serve_file import ServeFile
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.formats.suggestions import did_you_mean
from fairwarning.formats.toml_text import Table, parse_toml

#: The prefix of variables, and what separates the table from the key.
PREFIX, SEPARATOR = "FAIRWARNING_", "__"

_LOCATION = re.compile(r"(?P<text>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<key>\w+)`")
_INDEXED = re.compile(r"(?P<table>\w+)\[(?P<index>\d+)\]")


class ConfigError(FairWarningError):
    """The file cannot be used."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        """Take the file and its problems, each with its table and key."""
        self.path = path
        self.problems = tuple(f"{path}: {problem}" for problem in problems)
        super().__init__("; ".join(self.problems))


def read_file(path: Path, variables: Mapping[str, str]) -> ServeFile:
    """Return the content of a file with the variables in place of its keys.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or has unknown, missing or invalid keys.
    """
    try:
        document: Table = parse_toml(read_operator_file(path, FileKind.SETTINGS).content)
    except UnusableFileError as problem:
        raise ConfigError(path, [str(problem).removeprefix(f"{path} ")]) from problem
    except ValueError as problem:
        raise ConfigError(path, [str(problem)]) from problem
    problems = [*_unknown_keys(document), *_replace(document, variables)]
    if problems:
        raise ConfigError(path, problems)
    try:
        return msgspec.convert(document, ServeFile)
    except msgspec.ValidationError as problem:
        raise ConfigError(path, [_explained(str(problem), document)]) from problem


def place(table: str, key: str = "") -> str:
    """Return how messages name a key of a table."""
    return f"[{table}] {key}".rstrip() if table else key


def entry_place(table: str, index: int, name: str = "", key: str = "") -> str:
    """Return how messages name a key of the ``index``-th table of a list of tables."""
    return f"[[{table}]] {name or f'number {index + 1}'} {key}".rstrip()


def _structs(kind: Type) -> tuple[StructType, ...]:
    """Return the tables that a value of this type can be."""
    match kind:
        case StructType():
            return (kind,)
        case Metadata(type=inner) | ListType(item_type=inner):
            return _structs(inner)
        case UnionType(types=kinds):
            return tuple(struct for inner in kinds for struct in _structs(inner))
        case _:
            return ()


def _keys(structs: Iterable[StructType]) -> dict[str, Type]:
    """Return the keys of a table with their types; the tag says which table it is."""
    keys: dict[str, Type] = {}
    for struct in structs:
        if struct.tag_field is not None:
            keys[struct.tag_field] = StrType()
        keys |= {field.encode_name: field.type for field in struct.fields}
    return keys


_TOP = _keys(_structs(type_info(ServeFile)))
#: The tables of the file, and the types that each can have.
_TABLES = {name: structs for name, kind in _TOP.items() if (structs := _structs(kind))}


def _unknown_keys(document: Table) -> Iterator[str]:
    for name in sorted(document.keys() - _TOP.keys()):
        yield _unknown_key(name, _TOP)
    for name, structs in _TABLES.items():
        content, known = document.get(name), _keys(structs)
        if isinstance(content, dict):
            yield from _unknown_in_table(content, known, place(name))
            yield from _keys_of_other_kind(content, structs, place(name))
        elif isinstance(content, list):
            for index, table in enumerate(content):
                if isinstance(table, dict) and not known.keys() >= table.keys():
                    yield from _unknown_in_table(table, known, entry_place(name, index, _name(table)))


def _unknown_in_table(table: Table, known: Mapping[str, Type], where: str) -> Iterator[str]:
    for key in sorted(table.keys() - known.keys()):
        yield f"{where}: {_unknown_key(key, known)}"


def _unknown_key(key: str, known: Mapping[str, Type]) -> str:
    """Return what is wrong: a misspelt key, or perhaps a file for a newer version."""
    other = f" (version {__version__} does not know it; a newer version may)"
    return f"unknown key {key}{did_you_mean(key, known) or other}"


def _keys_of_other_kind(table: Table, structs: tuple[StructType, ...], where: str) -> Iterator[str]:
    """Yield the keys that belong to a table of the same name and another kind."""
    chosen = [struct for struct in structs if struct.tag is not None and struct.tag == table.get("kind")]
    for struct in structs if chosen else ():
        for key in sorted(table.keys() & _keys([struct]).keys() - _keys(chosen).keys()):
            yield f'{where} {key}: is a key of kind = "{struct.tag}"'


def _replace(document: Table, variables: Mapping[str, str]) -> Iterator[str]:
    """Put the values of variables into the document; yield the problems."""
    known = _variables()
    for variable, text in sorted(variables.items()):
        if not variable.startswith(PREFIX) or SEPARATOR not in variable:
            continue
        if variable not in known:
            yield f"the variable {variable} names no key of the file{did_you_mean(variable, known, most=1)}"
            continue
        table, key, kind = known[variable]
        target = document.setdefault(table, {}) if table else document
        try:
            if isinstance(target, dict):
                target[key] = _value(text, kind)
        except ValueError:
            yield f"the variable {variable} has an invalid value for {place(table, key)}"


def _variables() -> dict[str, tuple[str, str, Type]]:
    """Return the variables, each with its table, its key and the type of its value."""
    singles = {key: kind for key, kind in _TOP.items() if key not in _TABLES}
    tables = {"": singles} | {
        name: _keys(structs) for name, structs in _TABLES.items() if not isinstance(_TOP[name], ListType)
    }
    return {
        _variable(table, key): (table, key, kind)
        for table, keys in tables.items()
        for key, kind in keys.items()
    }


def _variable(table: str, key: str) -> str:
    name = f"{PREFIX.rstrip('_') if not table else PREFIX + table}{SEPARATOR}{key}"
    return name.upper().replace("-", "_")


def _value(text: str, kind: Type) -> Json:
    """Return the value that a variable gives a key of this type."""
    match kind:
        case Metadata(type=inner):
            return _value(text, inner)
        case ListType():
            return [part.strip() for part in text.split(",") if part.strip()]
        case BoolType():
            if text not in ("true", "false"):
                raise ValueError(text)
            return text == "true"
        case IntType():
            return int(text)
        case FloatType():
            return float(text)
        case _:
            return text


def _name(table: Table) -> str:
    name = table.get("name")
    return name if isinstance(name, str) else ""


def _explained(message: str, document: Table) -> str:
    """Return a message of the conversion with the table and the key that it is about."""
    located = _LOCATION.fullmatch(message)
    text, path = (message, "") if located is None else (located["text"], located["path"])
    if missing := _MISSING.fullmatch(text):
        path, text = f"{path}.{missing['key']}".lstrip("."), "is missing"
    table, _, key = path.rpartition(".")
    choices = _choices(table.partition("[")[0], key) if text.startswith("Invalid") else ""
    return f"{_where(table, key, document)}: {text[:1].lower()}{text[1:]}{choices}"


def _where(table: str, key: str, document: Table) -> str:
    indexed = _INDEXED.fullmatch(table)
    if indexed is None:
        return place(key) if not table and key in _TABLES else place(table, key)
    entries, index = document[indexed["table"]], int(indexed["index"])
    entry = entries[index] if isinstance(entries, list) else None
    return entry_place(indexed["table"], index, _name(entry) if isinstance(entry, dict) else "", key)


def _choices(table: str, key: str) -> str:
    """Return the values that a key can have, if there are few."""
    structs = _TABLES.get(table, ())
    kind = _keys(structs).get(key) if table else _TOP.get(key)
    kind = kind.type if isinstance(kind, Metadata) else kind
    values = kind.values if isinstance(kind, LiteralType) else [struct.tag for struct in structs]
    return f" (expected {' or '.join(map(str, values))})"
