"""Archives of generated files, with the same bytes on every machine."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tools.release import Release


def write_archive(release: Release, name: str, files: Mapping[str, str]) -> Path:
    """Write texts by path into a ``.tar.gz`` in ``dist``, and return its path."""
    target = release.dist / name
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=release.epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path, text in sorted(files.items()):
            content = text.encode()
            member = tarfile.TarInfo(path)
            member.size, member.mtime = len(content), release.epoch
            archive.addfile(member, io.BytesIO(content))
    return target


def read_archive(path: Path) -> dict[str, str]:
    """Return the texts of such an archive by path."""
    with tarfile.open(path) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read().decode() for name, file in files if file}
