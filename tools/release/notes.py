"""The release notes: the section of the changelog about this version."""

from pathlib import Path

from tools.release import Release
from tools.release.version import Sources


def build(release: Release) -> list[Path]:
    """Write the notes."""
    target = release.dist / f"fairwarning-{release.version}-notes.md"
    target.write_text(f"# fairwarning {release.version}\n\n{Sources().notes()}\n")
    return [target]
