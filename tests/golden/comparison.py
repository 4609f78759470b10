"""Compares what is said with what is expected, a folder of small text files at a time."""

import difflib
import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx2
import pytest

from fairwarning.arm.context import SUBSCRIPTION, TENANT
from fairwarning.core.document.render import Json
from tests.fixtures.release import KEPT

FOLDER = Path(__file__).parent / "expected"

_ID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b[0-9a-f]{32}\b")
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
_DATA = re.compile(r"/[\w/.-]*/data\b")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----(\\n)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Golden:
    """What is expected; with ``write``, what is said becomes that."""

    write: bool

    def __call__(self, folder: str, said: Mapping[str, str]) -> None:
        """Compare texts with the files of a folder: the same names, the same contents."""
        place = FOLDER / _spelled(folder)
        stable = {f"{_spelled(name)}.txt": settled(text) for name, text in said.items()}
        known = {path.name: path.read_text() for path in sorted(place.glob("*.txt"))}
        if self.write:
            _write(place, known, stable)
        elif known != stable:
            names = sorted(name for name in {*known, *stable} if known.get(name) != stable.get(name))
            parts = (_diff(f"{folder}/{name}", known.get(name, ""), stable.get(name, "")) for name in names)
            hint = "if this is wanted: ./dev test tests/golden --write-goldens, and read the diff"
            pytest.fail("\n".join(["not as expected", *parts, hint]), pytrace=False)


def _spelled(name: str) -> str:
    return re.sub(r"[^\w./-]+", "-", name)


def settled(text: str) -> str:
    """Return a text without what differs from run to run: ports, paths, and ids that were made in it."""
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        plain = found[0].replace("-", "").lower()
        if plain in _known():
            return found[0]
        number = numbers.setdefault(plain, len(numbers) + 1)
        named = f"new{number:05}" + re.sub("[^-]", "0", found[0][8:])
        # Which case an id is written in is a promise.
        return named if found[0] == found[0].lower() else named.upper()

    text = _CERTIFICATE.sub("CERTIFICATE", _DATA.sub("DATA", _PORT.sub("PORT", text)))
    return _ID.sub(renamed, text.replace(platform.python_version(), "PYTHON")).rstrip("\n") + "\n"


@cache
def _known() -> frozenset[str]:
    """Return the ids that the fleet of release 0.1.0 has for good."""
    kept = (KEPT / "fairwarning.db").read_bytes().decode("latin-1")
    known = {found[0] for found in _ID.finditer(kept)} | {SUBSCRIPTION, TENANT}
    return frozenset(one.replace("-", "").lower() for one in known)


def _write(place: Path, known: Mapping[str, str], said: Mapping[str, str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in known.keys() - said.keys():
        (place / name).unlink()
    for name, text in said.items():
        (place / name).write_text(text)


def _diff(name: str, before: str, now: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"expected/{name}", f"said/{name}", lineterm=""
    )
    return "\n".join(lines)


def answer(response: httpx2.Response, *headers: str) -> str:
    """Return an answer as a text: the request, the status, the headers that matter, the body."""
    told = (
        f"{name}: {response.headers[name]}" for name in ("content-type", *headers) if name in response.headers
    )
    target = response.request.url.raw_path.decode()
    first = f"{response.request.method} {target} -> {response.status_code}"
    return "\n".join([first, *told, *_body(response), ""])


def _body(response: httpx2.Response) -> Iterator[str]:
    if "json" in response.headers.get("content-type", "") and response.content:
        yield pretty(response.json())
    elif response.content:
        yield response.text.rstrip("\n")


def pretty(value: Json) -> str:
    """Return a value as JSON that a person can compare, its members in the order in which they came."""
    return json.dumps(value, indent=1, ensure_ascii=False)
