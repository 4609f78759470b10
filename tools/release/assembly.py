"""A whole release in one folder: every artefact, their checksums, and a manifest that lists them.

``dist`` is emptied first and the manifest is written last, so a folder without a manifest is not a release.
"""

import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tools.release import ROOT, Release, ReleaseError, installations
from tools.release.builders import BUILDERS, OBSTACLES, PROGRAMS
from tools.release.installations import pythons, try_out
from tools.release.programs import PACKAGES, missing, program
from tools.release.version import Sources, is_release

CHECKSUMS = "SHA256SUMS"
MANIFEST = "manifest.json"

#: A version in the name of a file, as Python, semantic versioning or Debian writes it.
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[.~-]?(?:a|b|rc|dev)\.?\d+)?")


def assemble(dist: Path, without: Collection[str]) -> None:
    """Build every artefact of the commit that is checked out, except those of the builders to leave out."""
    names = [name for name in BUILDERS if name not in without]
    _look_ahead(names, installations.obstacle())
    if changed := _git("status", "--porcelain"):
        raise ReleaseError(f"commit or remove these changes first:\n{changed}")
    Sources().notes()
    version = Sources().version()
    tags = _git("tag", "--points-at", "HEAD", "--list", "v*").split()
    if wrong := [tag for tag in tags if tag != f"v{version}"]:
        raise ReleaseError(f"the commit has the tag {wrong[0]}, but its version is {version}")
    if tags and not is_release(version):
        raise ReleaseError(
            f"the commit has the tag {tags[0]}, but {version} is not a release; remove the tag"
        )
    if not is_release(version):
        print(f"release: {version} is not a release; these artefacts are a rehearsal", flush=True)
    _empty(dist)
    release = describe(dist)
    made = build(release, names)
    _try_out(release, [path for kind in ("wheel", "sdist") for path in made.get(kind, ())])
    _write_manifest(release, made, without)


def build_alone(dist: Path, names: Sequence[str]) -> None:
    """Build artefacts of the tree as it is into a folder, which is no complete release from then on."""
    _look_ahead(names)
    release = describe(dist)
    about = [release.dist / name for name in (CHECKSUMS, MANIFEST)]
    if all(path.exists() for path in about):
        for path in about:
            path.unlink()
    build(release, names)


def _look_ahead(names: Sequence[str], *obstacles: str | None) -> None:
    """Refuse to begin if builders will need something that this machine lacks; name all of it."""
    others = (OBSTACLES[name]() for name in names if name in OBSTACLES)
    lacks = [f"  {text}" for text in (*obstacles, *others) if text]
    programs = missing(["git", *(program for name in names for program in PROGRAMS.get(name, ()))])
    lacks += [f"  {program} (Debian package {PACKAGES[program]})" for program in programs]
    if programs:
        packages = sorted({PACKAGES[program] for program in programs})
        lacks.append(f"install them with: apt-get install {' '.join(packages)}")
    if lacks:
        raise ReleaseError("\n".join(["nothing was built; this machine lacks", *lacks]))


def describe(dist: Path) -> Release:
    """Return the release of this checkout; make the folder if it is missing."""
    dist.mkdir(parents=True, exist_ok=True)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))
    return Release(dist=dist.resolve(), version=Sources().version(), epoch=epoch)


def build(release: Release, names: Sequence[str]) -> Mapping[str, Sequence[Path]]:
    """Run builders, and say what each made in how many seconds; return the artefacts by builder."""
    made: dict[str, Sequence[Path]] = {}
    for name in names:
        began = time.monotonic()
        made[name] = BUILDERS[name](release)
        _remove_other_versions(made[name])
        _say(began, f"{name}: {' '.join(path.name for path in made[name])}")
    return made


def _remove_other_versions(paths: Sequence[Path]) -> None:
    for path in paths:
        for other in path.parent.iterdir():
            if other != path and other.is_file() and _without_version(other) == _without_version(path):
                other.unlink()


def _without_version(path: Path) -> str:
    return _VERSION.sub("VERSION", path.name)


def _try_out(release: Release, distributions: Sequence[Path]) -> None:
    """Try distributions on the oldest and the newest Python."""
    for version, python in pythons().items():
        for distribution in distributions:
            began = time.monotonic()
            try_out(release, python, distribution)
            _say(began, f"{distribution.name} installed and tried on Python {version}")


def _say(began: float, what: str) -> None:
    print(f"release: {what} ({time.monotonic() - began:.1f} s)", flush=True)


def _empty(dist: Path) -> None:
    """Remove the artefacts of an earlier release; refuse a folder with anything else in it."""
    files = sorted(dist.iterdir()) if dist.exists() else []
    strange = [
        path
        for path in files
        if path.is_dir() or not (path.name.startswith("fairwarning") or path.name in (CHECKSUMS, MANIFEST))
    ]
    if strange:
        raise ReleaseError(f"{strange[0]} is not part of a release; remove it, or choose another --dist")
    for path in files:
        path.unlink()


def _write_manifest(release: Release, made: Mapping[str, Sequence[Path]], without: Collection[str]) -> None:
    artefacts = [
        {
            "artefact": path.name,
            "kind": kind,
            "size": path.stat().st_size,
            "sha256": _sha256(path),
            "version": release.version,
        }
        for kind, paths in made.items()
        for path in paths
    ]
    manifest = {
        "name": "fairwarning",
        "version": release.version,
        "commit": _git("rev-parse", "HEAD"),
        "artefacts": artefacts,
        "without": sorted(without),
    }
    lines = sorted(f"{artefact['sha256']}  {artefact['artefact']}\n" for artefact in artefacts)
    (release.dist / CHECKSUMS).write_text("".join(lines))
    (release.dist / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"release: {release.dist / MANIFEST}", flush=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git(*words: str) -> str:
    done = subprocess.run([program("git"), *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"git {words[0]} failed: {done.stderr.strip()}; a release needs a clone with git")
    return done.stdout.strip()
