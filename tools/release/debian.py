"""The Debian packages: the agent for every Debian with Python 3.11 or later, the server for Debian 12, amd64.

Each package is first laid out in a folder as it is installed; nfpm then packs the folder. The server brings
its libraries along in ``/usr/lib/fairwarning``, because those of Debian 12 are too old. That folder is a
virtual environment, so that processes which the server starts find the libraries without a PYTHONPATH.
"""

import gzip
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from email.utils import format_datetime
from pathlib import Path

from tools.environments import environment
from tools.release import ROOT, Release
from tools.release.archives import read_archive
from tools.release.completions import SCRIPTS
from tools.release.programs import program, run

PACKAGING = ROOT / "packaging"
DEBIAN = PACKAGING / "debian"
_PROGRAMS = Path(__file__).with_name("debian.txt")

#: Where the server's environment is installed, and its libraries in it.
_HOME = Path("usr/lib/fairwarning")
_SITE = _HOME / "lib/python3.11/site-packages"
_LAUNCHER = """\
#!/bin/sh
exec /usr/lib/fairwarning/bin/python3 -I -m fairwarning "$@"
"""
#: Where each shell looks for completions that packages bring.
_COMPLETIONS: Mapping[str, str] = {
    "bash": "usr/share/bash-completion/completions",
    "fish": "usr/share/fish/vendor_completions.d",
    "zsh": "usr/share/zsh/vendor-completions",
}
#: What pip notes about the machine and the moment of the installation.
_NOTES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")


def build_agent(release: Release) -> list[Path]:
    """Build the package of the agent."""
    return [_package(release, "fairwarning-agent", revision="1", architecture="all", lay_out=_lay_out_agent)]


def build_server(release: Release) -> list[Path]:
    """Build the package of the server and the command line."""
    return [
        _package(release, "fairwarning", revision="1~deb12", architecture="amd64", lay_out=_lay_out_server)
    ]


def _package(
    release: Release, name: str, *, revision: str, architecture: str, lay_out: Callable[[Release, Path], None]
) -> Path:
    version = debian_version(release.version)
    target = release.dist / f"{name}_{version}-{revision}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        lay_out(release, scratch / "root")
        _add_documents(release, scratch / "root", name, f"{version}-{revision}")
        for script in ("postinst", "prerm", "postrm"):
            _install(DEBIAN / f"{name}.{script}", scratch / "scripts" / script, mode=0o755)
        _forget_this_machine(release, scratch)
        nfpm = f"{environment(_PROGRAMS)}/nfpm"
        files = (f"--config={DEBIAN / name}.yaml", f"--target={target}")
        variables = {"VERSION": version, "REVISION": revision, "ARCHITECTURE": architecture}
        run(release, [nfpm, "package", "--packager=deb", *files], cwd=scratch, environment=variables)
    return target


def _forget_this_machine(release: Release, folder: Path) -> None:
    """Give all files the time of the release, and the usual permissions."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (release.epoch, release.epoch), follow_symlinks=False)


def debian_version(version: str) -> str:
    """Return a version as Debian orders it: a candidate, and the work on a release, precede the release."""
    return re.sub(r"\.?(dev|a|b|rc)(?=\d)", r"~\1", version)


def _lay_out_agent(release: Release, root: Path) -> None:
    program_file = root / "usr/lib/fairwarning-agent/fairwarning-agent.pyz"
    _install(release.built("fairwarning-agent.pyz", by="agent"), program_file, mode=0o755)
    _link(root / "usr/bin/fairwarning-agent", "../lib/fairwarning-agent/fairwarning-agent.pyz")
    unit = (PACKAGING / "fairwarning-agent.service").read_text()
    # Administrators install below /usr/local, packages do not.
    packaged = "".join(
        line.replace("/usr/local/bin/", "/usr/bin/")
        for line in unit.splitlines(keepends=True)
        if not line.startswith("# Install:")
    )
    _write(root / "usr/lib/systemd/system/fairwarning-agent.service", packaged)
    _install(DEBIAN / "agent.toml", root / "etc/fairwarning/agent.toml")
    _add_manuals(release, root, "man8")


def _lay_out_server(release: Release, root: Path) -> None:
    _install_libraries(release, root / _SITE)
    _compile(release, root / _SITE)
    _write(root / _HOME / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    _link(root / _HOME / "bin/python3", "../../../bin/python3")
    _write(root / "usr/bin/fairwarning", _LAUNCHER, mode=0o755)
    _install(PACKAGING / "fairwarning.service", root / "usr/lib/systemd/system/fairwarning.service")
    _install(DEBIAN / "fairwarning.sysusers", root / "usr/lib/sysusers.d/fairwarning.conf")
    _install(DEBIAN / "server.toml", root / "etc/fairwarning/server.toml")
    _add_manuals(release, root, "man1")
    scripts = read_archive(release.completions)
    for shell, folder in _COMPLETIONS.items():
        _write(root / folder / Path(SCRIPTS[shell]).name, scripts[SCRIPTS[shell]])


def _install_libraries(release: Release, site: Path) -> None:
    """Install the wheel and what it needs, without traces of this machine."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    options = ["--only-binary=:all:", "--no-compile", f"--constraint={ROOT / 'constraints.txt'}"]
    run(release, [*pip, *options, f"--target={site}", f"{release.wheel}[postgres]"])
    shutil.rmtree(site / "bin")
    for note in (path for name in _NOTES for path in site.glob(f"*.dist-info/{name}")):
        note.unlink()
    for file in (path for path in site.rglob("*") if path.is_file()):
        file.chmod(0o644)  # libraries are not programs
    libraries = sorted(path for path in site.rglob("*.so*") if path.is_file())
    run(release, [program("strip"), "--strip-unneeded", "--remove-section=.comment", *libraries])


def obstacle() -> str | None:
    """Return what is needed instead, if libraries that pip installs here do not fit Debian 12, amd64."""
    libc, version = platform.libc_ver()
    right = (sys.version_info[:2], platform.machine(), libc) == ((3, 11), "x86_64", "glibc")
    if right and tuple(map(int, version.split("."))) <= (2, 36):
        return None
    return "Python 3.11 on Debian 12, amd64, which the package of the server is for"


def _compile(release: Release, site: Path) -> None:
    """Compile all modules, so that a command of root writes no file beside those of the package."""
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    run(release, [*command, "-s", site, "-p", f"/{_SITE}", site])


def _add_manuals(release: Release, root: Path, section: str) -> None:
    for name, page in read_archive(release.manuals).items():
        if name.startswith(f"{section}/"):
            _compress(page, root / "usr/share/man" / f"{name}.gz")


def _add_documents(release: Release, root: Path, name: str, version: str) -> None:
    """Add what every package documents: its licences, its changes, and expected tags of lintian."""
    documents = root / "usr/share/doc" / name
    licences = "".join(f"{line}\n" for line in _licences(root / _SITE))
    _write(documents / "copyright", (DEBIAN / "copyright").read_text() + licences)
    _compress((ROOT / "CHANGELOG.md").read_text(), documents / "changelog.gz")
    when = format_datetime(datetime.fromtimestamp(release.epoch, UTC))
    entry = f"""\
{name} ({version}) unstable; urgency=medium

  * Release {release.version}; changelog.gz says what is new.

 -- fairwarning <packages@fairwarning.invalid>  {when}
"""
    _compress(entry, documents / "changelog.Debian.gz")
    if (overrides := DEBIAN / f"{name}.lintian-overrides").exists():
        _install(overrides, root / "usr/share/lintian/overrides" / name)


def _licences(site: Path) -> Iterator[str]:
    """Yield a line for each library in the package."""
    metadata = sorted(site.glob("*.dist-info/METADATA"))
    if metadata:
        yield ""
        yield f"Libraries in /{_SITE}, each with its licence in its .dist-info folder:"
        yield ""
    for path in metadata:
        fields = HeaderParser().parsestr(path.read_text())
        if fields["Name"] != "fairwarning":
            yield f"{fields['Name']} {fields['Version']}: {_licence(fields)}"


def _licence(fields: Message) -> str:
    classifiers = [
        str(text).rpartition(":: ")[2]
        for text in fields.get_all("Classifier", [])
        if text.startswith("License")
    ]
    return str(fields["License-Expression"] or ", ".join(classifiers) or fields["License"])


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _install(source: Path, target: Path, *, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def _compress(text: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    path.chmod(0o644)
