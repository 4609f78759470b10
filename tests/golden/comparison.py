"""Compares actual texts with golden files, one folder at a time."""

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

from fairwarning import __version__
from fairwarning.arm.context import SUBSCRIPTION, TENANT
from fairwarning.core.document.render import Json
from tests.fixtures.release import FIRST

FOLDER = Path(__file__).parent / "expected"

_ID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|(?<![0-9a-zA-Z])[0-9a-f]{32}\b")
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
_DATA = re.compile(r"/[\w/.-]*/data\b")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----(\\n)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Golden:
    """Compares texts with golden files; with ``write``, replaces the files."""

    write: bool

    def __call__(self, folder: str, texts: Mapping[str, str]) -> None:
        """Compare texts with the files of a folder: the same names, the same contents."""
        directory = FOLDER / _file_name(folder)
        actual = {f"{_file_name(name)}.txt": normalized(text) for name, text in texts.items()}
        expected = {path.name: path.read_text() for path in sorted(directory.glob("*.txt"))}
        if self.write:
            _write(directory, expected, actual)
        elif expected != actual:
            names = sorted(name for name in {*expected, *actual} if expected.get(name) != actual.get(name))
            parts = (
                _diff(f"{folder}/{name}", expected.get(name, ""), actual.get(name, "")) for name in names
            )
            hint = "if this change is intended: ./dev test tests/golden --write-goldens, and review the diff"
            pytest.fail("\n".join(["golden files differ", *parts, hint]), pytrace=False)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w./-]+", "-", name)


def normalized(text: str) -> str:
    """Return a text without values that differ from run to run or from release to release."""
    numbers: dict[str, int] = {}

    def replacement(match: re.Match[str]) -> str:
        plain = match[0].replace("-", "").lower()
        if plain in _known():
            return match[0]
        number = numbers.setdefault(plain, len(numbers) + 1)
        new_id = f"new{number:05}" + re.sub("[^-]", "0", match[0][8:])
        # The case of an id is part of the contract.
        return new_id if match[0] == match[0].lower() else new_id.upper()

    text = _CERTIFICATE.sub("CERTIFICATE", _DATA.sub("DATA", _PORT.sub("PORT", text)))
    for value, name in ((platform.python_version(), "PYTHON"), (__version__, "VERSION")):
        text = text.replace(value, name)
    return _ID.sub(replacement, text).rstrip("\n") + "\n"


@cache
def _known() -> frozenset[str]:
    """Return the ids in the data directory of release 0.1.0."""
    kept = (FIRST.folder / "fairwarning.db").read_bytes().decode("latin-1")
    known = {match[0] for match in _ID.finditer(kept)} | {SUBSCRIPTION, TENANT}
    return frozenset(known_id.replace("-", "").lower() for known_id in known)


def _write(directory: Path, expected: Mapping[str, str], actual: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in expected.keys() - actual.keys():
        (directory / name).unlink()
    for name, text in actual.items():
        (directory / name).write_text(text)


def _diff(name: str, expected: str, actual: str) -> str:
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), f"expected/{name}", f"actual/{name}", lineterm=""
    )
    return "\n".join(lines)


def answer(response: httpx2.Response, *headers: str) -> str:
    """Return a response as text: the request, the status, these headers, the body."""
    shown = (
        f"{name}: {response.headers[name]}" for name in ("content-type", *headers) if name in response.headers
    )
    target = response.request.url.raw_path.decode()
    first = f"{response.request.method} {target} -> {response.status_code}"
    return "\n".join([first, *shown, *_body(response), ""])


def _body(response: httpx2.Response) -> Iterator[str]:
    if "json" in response.headers.get("content-type", "") and response.content:
        yield pretty(response.json())
    elif response.content:
        yield response.text.rstrip("\n")


def pretty(value: Json) -> str:
    """Return a value as indented JSON, with its members in their original order."""
    return json.dumps(value, indent=1, ensure_ascii=False)
