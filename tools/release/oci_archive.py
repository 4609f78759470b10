"""Writes an OCI archive with one image again, so that the same image has the same bytes.

An archive is a tar of blobs, each named by its SHA-256. The index names a manifest; the manifest names the
configuration and the layers. Here every time becomes ``epoch``, and layers are compressed in one way.
"""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

#: The annotation by which ``podman load`` names the image.
REFERENCE = "org.opencontainers.image.ref.name"


class Descriptor(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Names a blob."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] | None = None


class Manifest(msgspec.Struct, kw_only=True, rename="camel"):
    """The parts of an image."""

    schema_version: int = 2
    media_type: str = MANIFEST
    config: Descriptor
    layers: list[Descriptor]


class Index(msgspec.Struct, kw_only=True, rename="camel"):
    """The images of an archive."""

    schema_version: int = 2
    manifests: list[Descriptor]


class RootFiles(msgspec.Struct, kw_only=True):
    """The layers of an image before compression."""

    type: str
    diff_ids: list[str]


class HistoryEntry(msgspec.Struct, kw_only=True):
    """How a layer was made."""

    created: str
    created_by: str


class Config(msgspec.Struct, kw_only=True):
    """How an image is run; ``config`` is kept as podman wrote it."""

    created: str
    architecture: str
    os: str
    config: msgspec.Raw
    rootfs: RootFiles
    history: list[HistoryEntry]


def rewrite(source: Path, target: Path, *, name: str, epoch: int) -> None:
    """Write the image in ``source`` to ``target``, with its name and the time ``epoch``."""
    old = _read(source)
    (described,) = msgspec.json.decode(old["index.json"], type=Index).manifests
    manifest = msgspec.json.decode(_blob(old, described), type=Manifest)
    config = msgspec.json.decode(_blob(old, manifest.config), type=Config)
    new: dict[str, bytes] = {}

    def put(media_type: str, blob: bytes) -> Descriptor:
        digest = hashlib.sha256(blob).hexdigest()
        new[f"blobs/sha256/{digest}"] = blob
        return Descriptor(media_type=media_type, digest=f"sha256:{digest}", size=len(blob))

    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = [HistoryEntry(created=created, created_by="Containerfile")]
    layers = [put(LAYER, _compress(_blob(old, layer))) for layer in manifest.layers]
    config = msgspec.structs.replace(config, created=created, history=history)
    parts = Manifest(config=put(CONFIG, msgspec.json.encode(config)), layers=layers)
    described = put(MANIFEST, msgspec.json.encode(parts))
    described.annotations = {REFERENCE: name}
    new["index.json"] = msgspec.json.encode(Index(manifests=[described]))
    new["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    _write(target, new, epoch)


def _read(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                files[member.name] = file.read()
    return files


def _blob(files: Mapping[str, bytes], descriptor: Descriptor) -> bytes:
    return files[f"blobs/{descriptor.digest.replace(':', '/')}"]


def _compress(layer: bytes) -> bytes:
    """Return a layer, which podman may have compressed, compressed without a time."""
    tar = gzip.decompress(layer) if layer.startswith(b"\x1f\x8b") else layer
    return gzip.compress(tar, compresslevel=9, mtime=0)


def _write(path: Path, files: Mapping[str, bytes], epoch: int) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), epoch, 0o644
            archive.addfile(member, io.BytesIO(content))
