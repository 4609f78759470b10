"""The version of the package, and its section of the changelog.

The version is written in one place, ``src/fairwarning/__init__.py``. A release has a version like ``0.2.0``,
and the first section of the changelog is its own, with a date. Between releases the version is that of the
next release with ``.dev0``, and the first section is called *Unreleased*. ``close`` leads from the second
state to the first, ``open_next`` back; both only edit the two files.
"""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tools.release import ROOT, ReleaseError

UNRELEASED = "[Unreleased]"
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)
_NUMBERS = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Sources:
    """The two files of a checkout that know the version."""

    root: Path = ROOT

    @property
    def module(self) -> Path:
        """Return the file with the version of the package."""
        return self.root / "src" / "fairwarning" / "__init__.py"

    @property
    def changelog(self) -> Path:
        """Return the changelog."""
        return self.root / "CHANGELOG.md"

    def version(self) -> str:
        """Return the version of this checkout."""
        (version,) = _VERSION.findall(self.module.read_text())
        return str(version)

    def sections(self) -> dict[str, str]:
        """Return the sections of the changelog by heading, the newest first."""
        _, *parts = _HEADING.split(self.changelog.read_text())
        return {heading: text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}

    def notes(self) -> str:
        """Return the changes of the version that is checked out.

        Raises:
            ReleaseError: the version has no closed section, or there are changes that it does not contain.
        """
        heading, text = next(iter(self.sections().items()))
        version = self.version()
        if is_release(version) and not heading.startswith(f"{version} - "):
            raise ReleaseError(
                f"the first section of CHANGELOG.md is {heading!r}, not that of {version}; "
                f"close the section with ./dev release --close {version}, and commit"
            )
        return text

    def close(self, version: str, today: date) -> None:
        """Set the version of a release, and give the section of its changes the version and a date."""
        self._require_newer(version)
        if not self.sections().get(UNRELEASED):
            raise ReleaseError(f"CHANGELOG.md has no changes under {UNRELEASED}; there is nothing to release")
        self._replace(self.changelog, f"## {UNRELEASED}\n", f"## {version} - {today.isoformat()}\n")
        self._set_version(version)

    def open_next(self, version: str) -> None:
        """Set the version of the work on the next release, and begin a section for its changes."""
        self._require_newer(version)
        if UNRELEASED in self.sections():
            raise ReleaseError(f"CHANGELOG.md has a section {UNRELEASED}; close it first")
        newest = f"## {next(iter(self.sections()))}\n"
        self._replace(self.changelog, newest, f"## {UNRELEASED}\n\n{newest}")
        self._set_version(f"{version}.dev0")

    def _require_newer(self, version: str) -> None:
        if not _NUMBERS.fullmatch(version):
            raise ReleaseError(f"invalid version {version!r} (expected e.g. 0.2.0)")
        released = [heading.split()[0] for heading in self.sections() if heading != UNRELEASED]
        if any(_numbers(version) <= _numbers(earlier) for earlier in released):
            raise ReleaseError(
                f"{version} is not newer than {released[0]}, the newest release in CHANGELOG.md"
            )

    def _set_version(self, version: str) -> None:
        self._replace(self.module, f'__version__ = "{self.version()}"\n', f'__version__ = "{version}"\n')

    @staticmethod
    def _replace(path: Path, old: str, new: str) -> None:
        path.write_text(path.read_text().replace(old, new, 1))


def is_release(version: str) -> bool:
    """Say whether this is the version of a release, not of the work between two releases."""
    return _NUMBERS.fullmatch(version) is not None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
