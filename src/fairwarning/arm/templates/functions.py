"""The template functions that need nothing but their arguments.

A table, so that what is supported can be read in one place. Functions that look at the template or at what is
deployed (``parameters``, ``reference``, ``resourceId`` and their like) are in ``templates.py``.
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
from fairwarning.arm.templates.expressions import FunctionArguments, TemplateFunction, called, whole
from fairwarning.core.document.render import Json

_ANY = 1_000_000
_HOLE = re.compile(r"\{\{|\}\}|\{([0-9]{1,3})(?::([^{}]*))?\}|[{}]")
_DIGITS = re.compile(r"[dD]([0-9]{1,2})")
_NAMES = uuid.UUID("9e6f2d0c-58a4-4b1b-8d57-0a4f0f1c7e63")  # ours alone: guid() only has to be stable


def written(value: Json) -> str:
    """Return a value as ``string()`` writes it; booleans are written True and False."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bool) else json.dumps(value, separators=(",", ":"))


def unique(parts: Sequence[str]) -> str:
    """Return 13 letters and digits that depend on ``parts`` alone."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return base64.b32encode(digest).decode().lower()[:13]


def _joined(pieces: Iterable[str]) -> str:
    kept: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > LONGEST:  # before it is built: three short functions could ask for a terabyte
            raise InvalidTemplateError(f"a string would be longer than {LONGEST} characters")
        kept.append(piece)
    return "".join(kept)


def _concat(a: FunctionArguments) -> Json:
    if a.values and isinstance(a.values[0], list):
        a.budget.make_items(sum(len(a.items(place)) for place in range(len(a.values))))
        return [item for place in range(len(a.values)) for item in a.items(place)]
    if any(isinstance(value, list | dict) for value in a.values):
        raise InvalidTemplateError("concat: joins strings, or arrays, not one with the other")
    return _joined(written(value) for value in a.values)


def _format(a: FunctionArguments) -> str:
    return _joined(_filled(a.text(0), a.values[1:]))


def _filled(pattern: str, values: Sequence[Json]) -> Iterator[str]:
    done = 0
    for hole in _HOLE.finditer(pattern):
        yield pattern[done : hole.start()]
        done = hole.end()
        number, style = hole.groups()
        if number is not None:
            yield _styled(int(number), style, values)
        elif len(hole[0]) == 2:
            yield hole[0][0]
        else:
            raise InvalidTemplateError(f"format: {pattern[:80]!r} has a brace without its partner")
    yield pattern[done:]


def _styled(number: int, style: str | None, values: Sequence[Json]) -> str:
    if number >= len(values):
        raise InvalidTemplateError(f"format: there is no value for {{{number}}}")
    value = values[number]
    if not style:
        return written(value)
    digits = _DIGITS.fullmatch(style)
    if digits is None or not isinstance(value, int):
        raise InvalidTemplateError(f"format: the style {style!r} is not supported for {called(value)}")
    return f"{'-' if value < 0 else ''}{str(abs(value)).zfill(int(digits[1]))}"


def _pad_left(a: FunctionArguments) -> str:
    fill = a.text(2) if len(a.values) > 2 else " "
    if len(fill) != 1 or not 0 <= a.whole(1) <= LONGEST:
        raise InvalidTemplateError("padLeft: takes a length and one character to fill it with")
    return written(a.values[0]).rjust(a.whole(1), fill)


def _replace(a: FunctionArguments) -> str:
    text, old, new = a.texts()
    if not old:
        raise InvalidTemplateError("replace: there is nothing to look for")
    return _joined(
        piece for index, part in enumerate(text.split(old)) for piece in (new if index else "", part)
    )


def _split(a: FunctionArguments) -> Json:
    marks = a.values[1] if isinstance(a.values[1], list) else [a.values[1]]
    texts = FunctionArguments("split", marks, a.budget).texts()
    if not texts or not all(texts):
        raise InvalidTemplateError("split: there is nothing to split at")
    text = a.text(0)
    if len(texts) == 1:
        return list[Json](text.split(texts[0]))
    # Every mark may have to be compared at every place.
    a.budget.step(sum(map(len, texts)) * (1 + len(text) // 64))
    return list[Json](re.split("|".join(re.escape(text) for text in texts), text))


def _substring(a: FunctionArguments) -> str:
    text, start = a.text(0), a.whole(1)
    length = a.whole(2) if len(a.values) > 2 else len(text) - start
    if start < 0 or length < 0 or start + length > len(text):
        raise InvalidTemplateError(
            f"substring: {start} and {length} lie outside a string of {len(text)} characters"
        )
    return text[start : start + length]


def _json(a: FunctionArguments) -> Json:
    text = a.text(0)
    a.budget.make(len(text))
    try:
        value: Json = json.loads(text, parse_int=whole, parse_float=_finite, parse_constant=_finite)
        # Half of a pair of surrogates may be escaped, but is no character that could be written.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise InvalidTemplateError(f"json: {text[:80]!r} is not JSON") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _int(a: FunctionArguments) -> int:
    return whole(a.text(0)) if isinstance(a.values[0], str) else a.whole(0)


def _bool(a: FunctionArguments) -> bool:
    value = a.values[0]
    if isinstance(value, str) and value.lower() in {"true", "false", "1", "0"}:
        return value.lower() in {"true", "1"}
    return bool(a.whole(0)) if isinstance(value, int) and not isinstance(value, bool) else a.claim(0)


def _length(a: FunctionArguments) -> int:
    value = a.values[0]
    return len(value) if isinstance(value, str | list | dict) else len(a.text(0))


def _empty(a: FunctionArguments) -> bool:
    return a.values[0] is None or _length(a) == 0


def _contains(a: FunctionArguments) -> bool:
    match a.values[0]:
        case str() as text:
            return written(a.values[1]) in text
        case dict() as fields:
            return a.text(1).lower() in {name.lower() for name in fields}
        case _:
            return any(_same(item, a.values[1]) for item in a.items(0))


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and one == other


def _union(a: FunctionArguments) -> Json:
    a.budget.make(sum(map(a.budget.weight, a.values)))
    if isinstance(a.values[0], dict):
        merged: dict[str, Json] = {}
        for place in range(len(a.values)):
            _merge(merged, a.fields(place))
        return merged
    items = [item for place in range(len(a.values)) for item in a.items(place)]
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())


def _merge(old: dict[str, Json], new: Mapping[str, Json]) -> None:
    """Lay ``new`` over ``old``, which must be ours to change, at every level."""
    for name, value in new.items():
        if not isinstance(value, dict):
            old[name] = value
            continue
        kept = old.get(name)
        if not isinstance(kept, dict):
            kept = old[name] = {}
        _merge(kept, value)


def _object(a: FunctionArguments) -> Json:
    if len(a.values) % 2:
        raise InvalidTemplateError("createObject: every name needs a value")
    return {a.text(place): a.values[place + 1] for place in range(0, len(a.values), 2)}


def _part(cut: Callable[[int], slice]) -> Callable[[FunctionArguments], Json]:
    def act(a: FunctionArguments) -> Json:
        piece = cut(max(0, a.whole(1)))
        return a.text(0)[piece] if isinstance(a.values[0], str) else a.items(0)[piece]

    return act


def _end(place: int) -> Callable[[FunctionArguments], Json]:
    def act(a: FunctionArguments) -> Json:
        if isinstance(a.values[0], str):
            return a.text(0)[place:][:1]
        return a.items(0)[place] if a.items(0) else None

    return act


def _sum(calculate: Callable[[int, int], int]) -> TemplateFunction:
    def act(a: FunctionArguments) -> Json:
        try:
            return whole(str(calculate(a.whole(0), a.whole(1))))
        except ZeroDivisionError:
            raise InvalidTemplateError(f"{a.function}: cannot divide by zero") from None

    return TemplateFunction(2, 2, act)


def _order(holds: Callable[[int], bool]) -> TemplateFunction:
    def act(a: FunctionArguments) -> Json:
        if isinstance(a.values[0], str):
            one, other = a.texts()
            return holds((one > other) - (one < other))
        return holds(a.whole(0) - a.whole(1))

    return TemplateFunction(2, 2, act)


def _truncated(one: int, other: int) -> int:
    # Rounds towards zero as the real thing does, where Python rounds down.
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


_TABLE: Mapping[str, TemplateFunction] = {
    "concat": TemplateFunction(0, _ANY, _concat),
    "format": TemplateFunction(1, _ANY, _format),
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
    "uniqueString": TemplateFunction(1, _ANY, lambda a: unique(a.texts())),
    "guid": TemplateFunction(1, _ANY, lambda a: str(uuid.uuid5(_NAMES, "\0".join(a.texts())))),
    "string": TemplateFunction(1, 1, lambda a: _joined([written(a.values[0])])),
    "int": TemplateFunction(1, 1, _int),
    "bool": TemplateFunction(1, 1, _bool),
    "json": TemplateFunction(1, 1, _json),
    "true": TemplateFunction(0, 0, lambda a: True),
    "false": TemplateFunction(0, 0, lambda a: False),
    "null": TemplateFunction(0, 0, lambda a: None),
    "if": TemplateFunction(3, 3, lambda a: a.values[1] if a.claim(0) else a.values[2]),
    "equals": TemplateFunction(2, 2, lambda a: _same(a.values[0], a.values[1])),
    "not": TemplateFunction(1, 1, lambda a: not a.claim(0)),
    "and": TemplateFunction(2, _ANY, lambda a: all([a.claim(place) for place in range(len(a.values))])),
    "or": TemplateFunction(2, _ANY, lambda a: any([a.claim(place) for place in range(len(a.values))])),
    "coalesce": TemplateFunction(
        1, _ANY, lambda a: next((value for value in a.values if value is not None), None)
    ),
    "greater": _order(lambda sign: sign > 0),
    "greaterOrEquals": _order(lambda sign: sign >= 0),
    "less": _order(lambda sign: sign < 0),
    "lessOrEquals": _order(lambda sign: sign <= 0),
    "length": TemplateFunction(1, 1, _length),
    "empty": TemplateFunction(1, 1, _empty),
    "contains": TemplateFunction(2, 2, _contains),
    "createArray": TemplateFunction(0, _ANY, lambda a: list(a.values)),
    "createObject": TemplateFunction(0, _ANY, _object),
    "union": TemplateFunction(1, _ANY, _union),
    "first": TemplateFunction(1, 1, _end(0)),
    "last": TemplateFunction(1, 1, _end(-1)),
    "skip": TemplateFunction(2, 2, _part(lambda count: slice(count, None))),
    "take": TemplateFunction(2, 2, _part(lambda count: slice(0, count))),
    "add": _sum(lambda one, other: one + other),
    "sub": _sum(lambda one, other: one - other),
    "mul": _sum(lambda one, other: one * other),
    "div": _sum(_truncated),
    "mod": _sum(lambda one, other: one - other * _truncated(one, other)),
}

PURE: Mapping[str, TemplateFunction] = {name.lower(): function for name, function in _TABLE.items()}
