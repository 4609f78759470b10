"""An OCI archive that was written again has the same bytes, whatever podman wrote."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

from tools.release.oci_archive import rewrite


def blob(files: dict[str, bytes], content: bytes) -> dict[str, str | int]:
    digest = hashlib.sha256(content).hexdigest()
    files[f"blobs/sha256/{digest}"] = content
    return {"mediaType": "application/octet-stream", "digest": f"sha256:{digest}", "size": len(content)}


def podmans_archive(path: Path, created: str, level: int) -> Path:
    files: dict[str, bytes] = {}
    layer = blob(files, gzip.compress(b"a layer" * 999, level))
    run = {"User": "65532:65532", "Cmd": ["up"]}
    roots = {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(b"a layer" * 999).hexdigest()]}
    config = {"created": created, "architecture": "amd64", "os": "linux", "config": run, "rootfs": roots}
    described = blob(
        files, json.dumps({**config, "history": [{"created": created, "created_by": "x"}]}).encode()
    )
    manifest = {"schemaVersion": 2, "config": described, "layers": [layer]}
    files["index.json"] = json.dumps({"manifests": [blob(files, json.dumps(manifest).encode())]}).encode()
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_the_same_image_has_the_same_bytes_and_every_blob_its_own_name(tmp_path: Path) -> None:
    first = podmans_archive(tmp_path / "first", "2026-11-17T10:00:00Z", level=1)
    second = podmans_archive(tmp_path / "second", "2026-11-17T11:30:00Z", level=6)

    rewrite(first, tmp_path / "one", name="localhost/image:latest", epoch=1_700_000_000)
    rewrite(second, tmp_path / "two", name="localhost/image:latest", epoch=1_700_000_000)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive]
        content = {name: file.read() for name, file in files if file}
    blobs = [name for name in content if name.startswith("blobs/")]
    assert blobs == [f"blobs/sha256/{hashlib.sha256(content[name]).hexdigest()}" for name in blobs]
    (image,) = json.loads(content["index.json"])["manifests"]
    assert image["annotations"] == {"org.opencontainers.image.ref.name": "localhost/image:latest"}
    manifest = json.loads(content[f"blobs/{image['digest'].replace(':', '/')}"])
    config = json.loads(content[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert (config["created"], config["config"]["User"]) == ("2023-11-14T22:13:20Z", "65532:65532")
