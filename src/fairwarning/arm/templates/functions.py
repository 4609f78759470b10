"""The template functions that depend on their arguments alone.

The table at the end lists what is supported. Functions that read the template or the deployed resources
(``parameters``, ``reference``, ``resourceId`` and others) are in ``context.py``.
"""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import LONGEST
from fairwarning.arm.templates.expressions import (
    FunctionArguments,
    TemplateFunction,
    parse_integer,
    type_name,
)
from fairwarning.core.document.render import Json

_ANY = 1_000_000
_HOLE = re.compile(r"\{\{|\}\}|\{([0-9]{1,3})(?::([^{}]*))?\}|[{}]")
_DIGITS = re.compile(r"[dD]([0-9]{1,2})")
#: A namespace of our own: guid() has to be stable, not equal to Azure's.
_NAMES = uuid.UUID("9e6f2d0c-58a4-4b1b-8d57-0a4f0f1c7e63")


def to_text(value: Json) -> str:
    """Return a value as ``string()`` writes it; booleans become True and False."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bool) else json.dumps(value, separators=(",", ":"))


def unique_string(parts: Sequence[str]) -> str:
    """Return 13 letters and digits that depend on ``parts`` alone."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return base64.b32encode(digest).decode().lower()[:13]


def _join(pieces: Iterable[str]) -> str:
    joined: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        # Checked before the string is built: three short functions could ask for a terabyte.
        if length > LONGEST:
            raise InvalidTemplateError(f"a string would be longer than {LONGEST} characters")
        joined.append(piece)
    return "".join(joined)


def _concat(a: FunctionArguments) -> Json:
    if a.values and isinstance(a.values[0], list):
        a.budget.charge_items(sum(len(a.items(index)) for index in range(len(a.values))))
        return [item for index in range(len(a.values)) for item in a.items(index)]
    if any(isinstance(value, list | dict) for value in a.values):
        raise InvalidTemplateError("concat: cannot mix strings with arrays or objects")
    return _join(to_text(value) for value in a.values)


def _fill(pattern: str, values: Sequence[Json]) -> Iterator[str]:
    end = 0
    for hole in _HOLE.finditer(pattern):
        yield pattern[end : hole.start()]
        end = hole.end()
        number, style = hole.groups()
        if number is not None:
            yield _format_value(int(number), style, values)
        elif len(hole[0]) == 2:
            yield hole[0][0]
        else:
            raise InvalidTemplateError("format: the text has an unmatched brace")
    yield pattern[end:]


def _format_value(number: int, style: str | None, values: Sequence[Json]) -> str:
    if number >= len(values):
        raise InvalidTemplateError(f"format: there is no value for {{{number}}}")
    value = values[number]
    if not style:
        return to_text(value)
    digits = _DIGITS.fullmatch(style)
    if digits is None or not isinstance(value, int):
        raise InvalidTemplateError(f"format: the style {style!r} is not supported for {type_name(value)}")
    return f"{'-' if value < 0 else ''}{str(abs(value)).zfill(int(digits[1]))}"


def _pad_left(a: FunctionArguments) -> str:
    fill = a.text(2) if len(a.values) > 2 else " "
    if len(fill) != 1 or not 0 <= a.integer(1) <= LONGEST:
        raise InvalidTemplateError("padLeft: takes a length and one character to fill it with")
    return to_text(a.values[0]).rjust(a.integer(1), fill)


def _replace(a: FunctionArguments) -> str:
    text, old, new = a.texts()
    if not old:
        raise InvalidTemplateError("replace: the text to replace is empty")
    return _join(
        piece for index, part in enumerate(text.split(old)) for piece in (new if index else "", part)
    )


def _split(a: FunctionArguments) -> Json:
    separators = a.values[1] if isinstance(a.values[1], list) else [a.values[1]]
    texts = FunctionArguments("split", separators, a.budget).texts()
    if not texts or not all(texts):
        raise InvalidTemplateError("split: a separator is empty or missing")
    text = a.text(0)
    if len(texts) == 1:
        return list[Json](text.split(texts[0]))
    # The search may compare every separator at every position.
    a.budget.charge_steps(sum(map(len, texts)) * (1 + len(text) // 64))
    return list[Json](re.split("|".join(re.escape(text) for text in texts), text))


def _substring(a: FunctionArguments) -> str:
    text, start = a.text(0), a.integer(1)
    length = a.integer(2) if len(a.values) > 2 else len(text) - start
    if start < 0 or length < 0 or start + length > len(text):
        raise InvalidTemplateError(
            f"substring: {start} and {length} lie outside a string of {len(text)} characters"
        )
    return text[start : start + length]


def _json(a: FunctionArguments) -> Json:
    text = a.text(0)
    a.budget.charge_size(len(text))
    try:
        value: Json = json.loads(text, parse_int=parse_integer, parse_float=_finite, parse_constant=_finite)
        # JSON may escape half of a surrogate pair, which no encoding can write.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise InvalidTemplateError("json: the text is not JSON") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _int(a: FunctionArguments) -> int:
    return parse_integer(a.text(0)) if isinstance(a.values[0], str) else a.integer(0)


def _bool(a: FunctionArguments) -> bool:
    value = a.values[0]
    if isinstance(value, str) and value.lower() in {"true", "false", "1", "0"}:
        return value.lower() in {"true", "1"}
    return bool(a.integer(0)) if isinstance(value, int) and not isinstance(value, bool) else a.boolean(0)


def _length(a: FunctionArguments) -> int:
    value = a.values[0]
    return len(value) if isinstance(value, str | list | dict) else len(a.text(0))


def _contains(a: FunctionArguments) -> bool:
    match a.values[0]:
        case str() as text:
            return to_text(a.values[1]) in text
        case dict() as fields:
            return a.text(1).lower() in {name.lower() for name in fields}
        case _:
            return any(_equal(item, a.values[1]) for item in a.items(0))


def _equal(left: Json, right: Json) -> bool:
    return type(left) is type(right) and left == right


def _union(a: FunctionArguments) -> Json:
    a.budget.charge_size(sum(map(a.budget.weigh, a.values)))
    if isinstance(a.values[0], dict):
        merged: dict[str, Json] = {}
        for index in range(len(a.values)):
            _merge(merged, a.fields(index))
        return merged
    items = [item for index in range(len(a.values)) for item in a.items(index)]
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())


def _merge(old: dict[str, Json], new: Mapping[str, Json]) -> None:
    """Merge ``new`` into ``old`` at all levels; ``old`` and its objects are changed."""
    for name, value in new.items():
        if not isinstance(value, dict):
            old[name] = value
            continue
        inner = old.get(name)
        if not isinstance(inner, dict):
            inner = old[name] = {}
        _merge(inner, value)


def _object(a: FunctionArguments) -> Json:
    if len(a.values) % 2:
        raise InvalidTemplateError("createObject: every name needs a value")
    return {a.text(index): a.values[index + 1] for index in range(0, len(a.values), 2)}


def _slice(cut: Callable[[int], slice]) -> Callable[[FunctionArguments], Json]:
    def apply(a: FunctionArguments) -> Json:
        piece = cut(max(0, a.integer(1)))
        return a.text(0)[piece] if isinstance(a.values[0], str) else a.items(0)[piece]

    return apply


def _item_at(index: int) -> Callable[[FunctionArguments], Json]:
    def apply(a: FunctionArguments) -> Json:
        if isinstance(a.values[0], str):
            return a.text(0)[index:][:1]
        return a.items(0)[index] if a.items(0) else None

    return apply


def _arithmetic(calculate: Callable[[int, int], int]) -> TemplateFunction:
    def apply(a: FunctionArguments) -> Json:
        try:
            return parse_integer(str(calculate(a.integer(0), a.integer(1))))
        except ZeroDivisionError:
            raise InvalidTemplateError(f"{a.function}: cannot divide by zero") from None

    return TemplateFunction(2, 2, apply)


def _comparison(holds: Callable[[int], bool]) -> TemplateFunction:
    def apply(a: FunctionArguments) -> Json:
        if isinstance(a.values[0], str):
            left, right = a.texts()
            return holds((left > right) - (left < right))
        return holds(a.integer(0) - a.integer(1))

    return TemplateFunction(2, 2, apply)


def _divide(left: int, right: int) -> int:
    # Azure rounds towards zero, Python rounds down.
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


_TABLE: Mapping[str, TemplateFunction] = {
    "concat": TemplateFunction(0, _ANY, _concat),
    "format": TemplateFunction(1, _ANY, lambda a: _join(_fill(a.text(0), a.values[1:]))),
    "toLower": TemplateFunction(1, 1, lambda a: a.text(0).lower()),
    "toUpper": TemplateFunction(1, 1, lambda a: a.text(0).upper()),
    "trim": TemplateFunction(1, 1, lambda a: a.text(0).strip()),
    "padLeft": TemplateFunction(2, 3, _pad_left),
    "replace": TemplateFunction(3, 3, _replace),
    "split": TemplateFunction(2, 2, _split),
    "substring": TemplateFunction(2, 3, _substring),
    "startsWith": TemplateFunction(2, 2, lambda a: a.text(0).lower().startswith(a.text(1).lower())),
    "endsWith": TemplateFunction(2, 2, lambda a: a.text(0).lower().endswith(a.text(1).lower())),
    "base64": TemplateFunction(1, 1, lambda a: base64.b64encode(a.text(0).encode()).decode()),
    "uniqueString": TemplateFunction(1, _ANY, lambda a: unique_string(a.texts())),
    "guid": TemplateFunction(1, _ANY, lambda a: str(uuid.uuid5(_NAMES, "\0".join(a.texts())))),
    "string": TemplateFunction(1, 1, lambda a: _join([to_text(a.values[0])])),
    "int": TemplateFunction(1, 1, _int),
    "bool": TemplateFunction(1, 1, _bool),
    "json": TemplateFunction(1, 1, _json),
    "true": TemplateFunction(0, 0, lambda a: True),
    "false": TemplateFunction(0, 0, lambda a: False),
    "null": TemplateFunction(0, 0, lambda a: None),
    "if": TemplateFunction(3, 3, lambda a: a.values[1] if a.boolean(0) else a.values[2]),
    "equals": TemplateFunction(2, 2, lambda a: _equal(a.values[0], a.values[1])),
    "not": TemplateFunction(1, 1, lambda a: not a.boolean(0)),
    "and": TemplateFunction(2, _ANY, lambda a: all([a.boolean(index) for index in range(len(a.values))])),
    "or": TemplateFunction(2, _ANY, lambda a: any([a.boolean(index) for index in range(len(a.values))])),
    "coalesce": TemplateFunction(
        1, _ANY, lambda a: next((value for value in a.values if value is not None), None)
    ),
    "greater": _comparison(lambda sign: sign > 0),
    "greaterOrEquals": _comparison(lambda sign: sign >= 0),
    "less": _comparison(lambda sign: sign < 0),
    "lessOrEquals": _comparison(lambda sign: sign <= 0),
    "length": TemplateFunction(1, 1, _length),
    "empty": TemplateFunction(1, 1, lambda a: a.values[0] is None or _length(a) == 0),
    "contains": TemplateFunction(2, 2, _contains),
    "createArray": TemplateFunction(0, _ANY, lambda a: list(a.values)),
    "createObject": TemplateFunction(0, _ANY, _object),
    "union": TemplateFunction(1, _ANY, _union),
    "first": TemplateFunction(1, 1, _item_at(0)),
    "last": TemplateFunction(1, 1, _item_at(-1)),
    "skip": TemplateFunction(2, 2, _slice(lambda count: slice(count, None))),
    "take": TemplateFunction(2, 2, _slice(lambda count: slice(0, count))),
    "add": _arithmetic(lambda left, right: left + right),
    "sub": _arithmetic(lambda left, right: left - right),
    "mul": _arithmetic(lambda left, right: left * right),
    "div": _arithmetic(_divide),
    "mod": _arithmetic(lambda left, right: left - right * _divide(left, right)),
}

PURE: Mapping[str, TemplateFunction] = {name.lower(): function for name, function in _TABLE.items()}
