"""A release: everything that people download, built by one command into one folder.

``./dev release`` runs all builders of ``builders.py`` in order; ``./dev release NAME --dist DIR`` runs one of
them. A builder is a function ``build(release)`` in a module of its own. It writes its artefacts into
``release.dist`` and returns their paths; scratch belongs into a temporary folder. A builder may use artefacts
of the builders before it, such as ``release.wheel``.

The same commit gives the same bytes: every time in an artefact is ``release.epoch``, names are sorted, and
nothing of the machine (paths, users, host names, the umask) reaches an artefact.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[2]


class ReleaseError(Exception):
    """The release cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is built, and where to."""

    #: The folder of the finished artefacts.
    dist: Path
    #: The version of the package, such as ``0.2.0`` or, between releases, ``0.2.0.dev0``.
    version: str
    #: The date of the last commit, in seconds: the only time that an artefact may contain.
    epoch: int

    @property
    def wheel(self) -> Path:
        """Return the wheel in ``dist``."""
        return self.built(f"fairwarning-{self.version}-py3-none-any.whl", by="wheel")

    @property
    def manuals(self) -> Path:
        """Return the archive of the manual pages: ``man1/*.1`` and ``man8/*.8``."""
        return self.built(f"fairwarning-{self.version}-manuals.tar.gz", by="manuals")

    @property
    def completions(self) -> Path:
        """Return the archive of the completion scripts, in the folders ``bash``, ``fish`` and ``zsh``."""
        return self.built(f"fairwarning-{self.version}-completions.tar.gz", by="completions")

    def built(self, name: str, *, by: str) -> Path:
        """Return the artefact of this name, which the builder ``by`` has made before."""
        path = self.dist / name
        if not path.exists():
            raise ReleaseError(f"{path} is missing; build it first: ./dev release {by} --dist {self.dist}")
        return path


class Build(Protocol):
    """The function of a builder."""

    def __call__(self, release: Release, /) -> list[Path]:
        """Write the artefacts into ``release.dist`` and return their paths."""
