"""Minimal Debian systems to try installations in. Needs root, mmdebstrap and unshare.

A root is made once a day for each Debian and list of packages, in ``.cache/roots``. ``bare_root`` enters it
with mount and process namespaces of its own: no file and no process of this machine is in sight, apart from
what its pip and its proxies are configured with. What is written goes to memory. The network is shared. All
processes in the root end with the context, and also if the process that entered it is killed.

    .venv/bin/python -m tools.roots COMMAND…

runs COMMAND as an ordinary user in a fresh clone of this repository, in a Debian 12 with python3 and
python3-venv.
"""

import ast
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
CACHE = REPOSITORY / ".cache" / "roots"
HOME = "/home/newcomer"
#: Debian 12.
BOOKWORM = "bookworm"
#: All that a machine needs to run fairwarning from a clone.
NEEDED = ("python3", "python3-venv")
#: The user in the roots; root of this machine is root there too.
NEWCOMER = 1000

#: Runs in the new namespaces. A chroot would not do: in a chroot there are no user namespaces. Bash stays as
#: process 1, collects orphans, and ends when its input is closed.
ENTER = """
mount -t tmpfs tmpfs {scratch}
cd {scratch}
mkdir upper work root
mount -t overlay -o lowerdir={kept},upperdir=upper,workdir=work overlay root
cd root
mount -t proc proc proc
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
cp /etc/resolv.conf /etc/hosts etc/
{lend}
mkdir outside
pivot_root . outside
cd /
umount --lazy /outside
rmdir /outside
echo entered
read -r
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A root file system that was entered."""

    init: int
    environment: Mapping[str, str]

    @property
    def path(self) -> Path:
        """Return the root as this machine sees it."""
        return Path(f"/proc/{self.init}/root")

    @property
    def home(self) -> Path:
        """Return the home of the ordinary user, as this machine sees it."""
        return self.path / HOME.lstrip("/")

    def command(self, *words: str, user: int = NEWCOMER, folder: str = HOME) -> list[str]:
        """Return the command line that runs ``words`` in the root, for subprocess."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return [
            *("nsenter", f"--target={self.init}", "--mount", "--pid"),
            *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
            # Whatever ran in the background ignores Ctrl-C; programs in the root must not.
            *("env", "--ignore-environment", "--default-signal=INT,QUIT", f"--chdir={folder}", *variables),
            *words,
        ]


@contextmanager
def bare_root(*packages: str, debian: str = BOOKWORM) -> Iterator[Root]:
    """Enter a fresh root with these packages, and leave nothing behind."""
    settings = index_settings()
    with (
        kept_root(*packages, debian=debian) as kept,
        tempfile.TemporaryDirectory(prefix="fairwarning-root-") as scratch,
    ):
        script = ENTER.format(
            kept=shlex.quote(str(kept)), scratch=shlex.quote(scratch), lend="\n".join(_lent(settings))
        )
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", script]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            if process.stdout.readline() != "entered\n":
                raise RuntimeError(f"the root {kept} cannot be entered: exit code {process.wait()}")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            basic = {"HOME": HOME, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
            try:
                yield Root(init=int(children), environment={**basic, **settings})
            finally:
                process.stdin.close()


@cache
def _today() -> str:
    """Return the day on which this process first asked: a root that it uses stays the newest for it."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


@contextmanager
def kept_root(*packages: str, debian: str = BOOKWORM) -> Iterator[Path]:
    """Return today's root with these packages, not to be written to; it stays during the block."""
    name = f"{debian}-{hashlib.sha256(' '.join(sorted(packages)).encode()).hexdigest()[:12]}"
    kept = CACHE / f"{name}-{_today()}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        # Users of the root share the lock, so no process removes the root; only making it is exclusive.
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not kept.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            _make_unless_made(kept, name, debian, packages)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield kept


def _make_unless_made(kept: Path, name: str, debian: str, packages: tuple[str, ...]) -> None:
    """Make a root in place of those of earlier days, unless another process was faster."""
    if not kept.exists():
        for old in CACHE.glob(f"{name}-*"):
            shutil.rmtree(old)
        _make(kept.with_suffix(".new"), debian, packages)
        kept.with_suffix(".new").rename(kept)


def _make(path: Path, debian: str, packages: tuple[str, ...]) -> None:
    # The mirror of this machine has every Debian.
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian"]
    mirrors = subprocess.run(targets, check=True, capture_output=True, text=True).stdout.split()
    add_user = f'chroot "$1" useradd --create-home --uid {NEWCOMER} {Path(HOME).name}'
    subprocess.run(
        [
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}"),
            *(f"--customize-hook={add_user}", debian, str(path), *mirrors[:1]),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    path.chmod(0o755)


def index_settings() -> dict[str, str]:
    """Return the settings of pip and of proxies on this machine, as environment variables."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return pip_variables(listing) | proxies


def pip_variables(listing: str) -> dict[str, str]:
    """Return the settings that ``pip config list`` prints, as environment variables."""
    configured = re.findall(r"^(?:global|:env:)\.([a-z-]+)=(.*)$", listing, re.MULTILINE)
    # The environment is listed first and overrides the files.
    return {
        f"PIP_{name.upper().replace('-', '_')}": str(ast.literal_eval(value))
        for name, value in reversed(configured)
    }


def index_paths(settings: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files and folders of this machine that the settings name."""
    words = {word for value in settings.values() for word in value.split()}
    for word in sorted(words):
        # The pages of an index point to folders beside it.
        source = Path(word.removeprefix("file://")).parent if word.startswith("file:///") else Path(word)
        if source.is_absolute() and source.exists():
            yield source


def _lent(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield commands that show the root, the working directory, the files that the settings name."""
    for source in index_paths(settings):
        target = shlex.quote(str(source).lstrip("/"))
        yield f"mkdir -p {target}" if source.is_dir() else f"install -D /dev/null {target}"
        yield f"mount --bind -o ro {shlex.quote(str(source))} {target}"


def run_in_clone(words: list[str]) -> int:
    """Run a command as a newcomer to this repository does; return its exit code."""
    with bare_root(*NEEDED) as root:
        return subprocess.run(root.command(*words, folder=clone(root)), stdin=subprocess.DEVNULL).returncode


def clone(root: Root) -> str:
    """Give the ordinary user of a root a fresh clone of this repository; return its folder in the root."""
    # git cannot write through /proc; hard links would give a newcomer the objects of this repository.
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, scratch], check=True)
        subprocess.run(
            ["cp", "--recursive", "--preserve=mode", scratch, root.home / "fairwarning"], check=True
        )
    subprocess.run(["chown", "--recursive", f"{NEWCOMER}:{NEWCOMER}", root.home], check=True)
    return f"{HOME}/fairwarning"


if __name__ == "__main__":
    sys.exit(run_in_clone(sys.argv[1:]))
