"""The container image, as an OCI archive that ``podman load`` reads.

The image is built from the sdist with the ``Containerfile`` that users build with. Only the bases differ:
both stages use a Debian root with Python, but without a shell and without anything that installs packages.
Podman's archives depend on the time and on how podman compresses, so ``oci_archive.py`` writes them again.
"""

import configparser
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path

from tools.podman import Podman, PodmanError, podman
from tools.release import Release, ReleaseError
from tools.release.oci_archive import rewrite
from tools.release.programs import program, run
from tools.roots import index_paths, index_settings

NAME = "localhost/fairwarning"
BASE = "localhost/debian-python"

PACKAGES = ("python3", "ca-certificates", "netbase", "tzdata")

#: What runs on this machine: podman starts the others.
PROGRAMS = ("mmdebstrap", "podman", "conmon", "crun or runc", "netavark", "nsenter", "unshare")

#: What a container has no use for. The licences stay.
EXCLUDED = """
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
path-exclude=/usr/bin/dpkg*
path-exclude=/usr/bin/openssl
path-exclude=/usr/lib/*/gconv/*
path-exclude=/usr/share/perl5/*
"""

#: No maintainer script runs in the root, so the list of authorities that Python trusts is made here.
TRUST = 'cat "$1"/usr/share/ca-certificates/mozilla/*.crt > "$1"/usr/lib/ssl/cert.pem'


def obstacle() -> str | None:
    """Return what the image needs besides programs, if this process lacks it."""
    return None if os.geteuid() == 0 else "root, because the image is built in namespaces of its own"


def build(release: Release) -> list[Path]:
    """Build the image on a base that is made of Debian packages."""
    sdist = release.built(f"fairwarning-{release.version}.tar.gz", by="sdist")
    target = release.dist / f"fairwarning-{release.version}-image.tar"
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        base = _base(release, scratch)
        shutil.unpack_archive(sdist, scratch)
        try:
            with podman(scratch / "podman", own_network=False) as own:
                own("import", "--quiet", base, BASE)
                _build(own, release, scratch)
                own("save", "--quiet", "--format=oci-archive", f"--output={scratch / 'image.tar'}", NAME)
        except PodmanError as error:
            raise ReleaseError(str(error)) from error
        rewrite(scratch / "image.tar", target, name=f"{NAME}:latest", epoch=release.epoch)
    return [target]


def _base(release: Release, scratch: Path) -> Path:
    """Return a tar archive with the files of the packages and of those that they depend on."""
    excluded, base = scratch / "dpkg.cfg", scratch / "base.tar"
    excluded.write_text(EXCLUDED)
    command = [program("mmdebstrap"), "--quiet", "--variant=extract"]
    options = [f"--include={','.join(PACKAGES)}", f"--dpkgopt={excluded}", f"--customize-hook={TRUST}"]
    run(release, [*command, *options, "bookworm", base])
    return base


def _build(own: Podman, release: Release, scratch: Path) -> None:
    settings = index_settings()
    lent = {path: path for path in index_paths(settings)}
    lent[_pip_settings(scratch / "pip.conf", settings)] = Path("/etc/pip.conf")
    lent[Path(sysconfig.get_path("purelib"), "pip")] = Path("/usr/lib/python3/dist-packages/pip")
    own(
        *("build", "--quiet", "--isolation=chroot", "--network=host", "--squash-all"),
        *(f"--build-arg={stage}={BASE}" for stage in ("BUILD", "RUN")),
        *(f"--volume={here}:{there}:ro" for here, there in lent.items()),
        f"--label=org.opencontainers.image.version={release.version}",
        f"--timestamp={release.epoch}",
        f"--tag={NAME}",
        scratch / f"fairwarning-{release.version}",
    )


def _pip_settings(path: Path, settings: dict[str, str]) -> Path:
    """Write the settings of pip into a file, because the image would keep variables; return its path."""
    parser = configparser.ConfigParser(interpolation=None)
    parser["global"] = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in settings.items()
        if name.startswith("PIP_")
    }
    with path.open("w") as file:
        parser.write(file)
    return path
