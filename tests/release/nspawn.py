"""Debian 12 under a real systemd, in namespaces of its own: nothing of a machine outlives its block."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.namespaces import Namespace

#: How many seconds a condition may take to hold; the machine that runs the tests may be busy.
PATIENCE = 120.0

#: What root's shell has, and no terminal.
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
}

#: The root is a layer of memory above the folder, which stays as it is. systemd-nspawn wants a /run of its
#: own and the id of the machine that it runs on, and makes control groups below that of its process.
BOOT = """\
set -e
for group in $3; do echo 0 >"$group/cgroup.procs"; done
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t tmpfs tmpfs /run
tr -d - </proc/sys/kernel/random/uuid >"$1/machine-id"
mount --bind "$1/machine-id" /etc/machine-id
exec systemd-nspawn --quiet --directory="$1/root" --register=no --keep-unit --console=pipe --boot
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that has booted."""

    #: The process of its systemd.
    leader: int

    @property
    def root(self) -> Path:
        """Its files, as this process sees them."""
        return Path(f"/proc/{self.leader}/root")

    def run(self, command: str, *, code: int = 0) -> str:
        """Return what a command of root prints, which must end with ``code``."""
        done = subprocess.run(
            ["nsenter", f"--target={self.leader}", "--all", "sh", "-c", f"cd\n{command}"],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, f"{command} exits with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return once a condition holds."""
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"not in time: {what}\n{self.run('journalctl --no-pager -n 60')}")
            time.sleep(0.1)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file."""
        target = self.root / path.lstrip("/")
        target.write_text(text)
        target.chmod(mode)

    def install(self, package: Path) -> str:
        """Install a package that somebody has downloaded."""
        self.download(package)
        return self.run(f"apt-get install ./{shlex.quote(package.name)}")

    def download(self, package: Path) -> None:
        """Put a package where root looks for it, in place of earlier versions."""
        home = self.root / "root"
        for earlier in home.glob(f"{package.name.partition('_')[0]}_*"):
            earlier.unlink()
        shutil.copyfile(package, home / package.name)

    def property(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run(f"systemctl show --value --property={name} {unit}").strip()

    def status(self, unit: str) -> dict[str, str]:
        """Return what the kernel says about the main process of a unit."""
        text = (self.root / "proc" / self.property(unit, "MainPID") / "status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def journal(self, unit: str) -> str:
        """Return the log of a unit."""
        return self.run(f"journalctl --no-pager -o cat -u {unit}")


@contextmanager
def booted(base: Path, scratch: Path, network: Namespace) -> Iterator[Machine]:
    """Boot a machine with the files of ``base``, in a network; what it writes ends with the block."""
    namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    console = scratch / "console.log"
    mountpoint = scratch / "machine"
    mountpoint.mkdir()
    boot = ["nsenter", f"--net=/run/netns/{network.name}", "unshare", *namespaces, "sh", "-c", BOOT, "sh"]
    with _control_groups() as groups, console.open("wb") as output:
        process = subprocess.Popen(
            [*boot, mountpoint, base, " ".join(map(str, groups))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            machine = Machine(leader=_leader(process, console))
            machine.wait(lambda: _is_up(machine), "the machine is up")
            yield machine
        finally:
            # The kernel ends every process of the machine with the first, and its mounts with the last.
            process.kill()
            process.wait()


@contextmanager
def _control_groups() -> Iterator[list[Path]]:
    """Create the control groups of a machine, in both hierarchies where there are two."""
    top = Path("/sys/fs/cgroup")
    hierarchies = [path for name in ("systemd", "unified") if (path := top / name).exists()] or [top]
    groups = [path / f"fairwarning-{os.getpid()}" for path in hierarchies]
    for group in groups:
        group.mkdir()
    try:
        yield groups
    finally:
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                _remove_group(Path(folder))


def _remove_group(group: Path) -> None:
    """Remove a control group once the kernel has ended its last process."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _leader(process: "subprocess.Popen[bytes]", console: Path) -> int:
    """Return the process of the machine's systemd: the child of systemd-nspawn, the child of unshare."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert process.poll() is None, console.read_text()
        for child in _children(process.pid):
            for grandchild in _children(child):
                if Path(f"/proc/{grandchild}/comm").read_text() == "systemd\n":
                    return grandchild
        time.sleep(0.05)
    raise AssertionError(f"the machine has not booted:\n{console.read_text()}")


def _children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _is_up(machine: Machine) -> bool:
    try:
        return machine.run("systemctl is-system-running --wait || true").strip() in ("running", "degraded")
    except AssertionError:
        return False
