"""Podman with images, networks and processes of its own, which are gone when it ends.

Everything runs in namespaces that one process holds: mounts, processes and, on request, the network. When
that process dies, the kernel ends every container and removes every mount, bridge and address, whatever has
failed before. The machine's own podman, its configuration and its mounts are not touched. Needs root.
"""

import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: Runs in the new namespaces. Bash stays as process 1, collects orphans, and ends when its input is closed.
HOLDER = """
cp -L /etc/resolv.conf "$1/resolv.conf"
mount -t tmpfs tmpfs /run
# The file may be a link into /run.
[ -e /etc/resolv.conf ] || install -D "$1/resolv.conf" "$(realpath -m /etc/resolv.conf)"
# crun refuses to run beside a version 2 hierarchy that has controllers of its own.
[ ! -d /sys/fs/cgroup/unified ] || umount /sys/fs/cgroup/unified
ip link set lo up 2>/dev/null || true
echo ready
read -r || true
"""

#: Without cgroups nothing is left in the machine's hierarchy, and neither systemd nor a journal is needed.
CONTAINERS_CONF = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
[network]
network_backend = "netavark"
network_config_dir = "{networks}"
"""

STORAGE_CONF = """
[storage]
driver = "overlay"
graphroot = "{images}"
runroot = "/run/containers/storage"
"""


class PodmanError(Exception):
    """A command of podman has failed; the message has its output."""


@dataclass(frozen=True)
class Podman:
    """Runs commands in the namespaces of the process ``holder``."""

    holder: int
    folder: Path

    def command(self, *words: str | Path) -> list[str]:
        """Return the command line that runs a program, such as podman, in the namespaces."""
        return [
            *("nsenter", f"--target={self.holder}", "--mount", "--pid", "--net", f"--wdns={Path.cwd()}"),
            *("env", f"CONTAINERS_CONF={self.folder / 'containers.conf'}"),
            f"CONTAINERS_STORAGE_CONF={self.folder / 'storage.conf'}",
            *map(str, words),
        ]

    def call(self, *words: str | Path, timeout: float = 600) -> str:
        """Run a program in the namespaces and return what it printed on stdout.

        Raises:
            PodmanError: the program failed.
        """
        done = subprocess.run(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
        if done.returncode:
            raise PodmanError(f"{words} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def __call__(self, *arguments: str | Path) -> str:
        """Run ``podman`` with arguments and return what it printed on stdout."""
        return self.call("podman", *arguments)


@contextmanager
def podman(folder: Path, *, own_network: bool) -> Iterator[Podman]:
    """Provide podman, with its images in a new folder that is removed in the end.

    With a network of its own, only containers and programs in the namespaces reach each other.
    """
    folder.mkdir()
    limits = {
        name: max(1024, resource.getrlimit(limit)[1])
        for name, limit in (("files", resource.RLIMIT_NOFILE), ("processes", resource.RLIMIT_NPROC))
    }
    configuration = CONTAINERS_CONF.format(**limits, networks=folder / "networks")
    (folder / "containers.conf").write_text(configuration)
    (folder / "storage.conf").write_text(STORAGE_CONF.format(images=folder / "images"))
    try:
        with _held(folder, own_network) as holder:
            yield Podman(holder, folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def _held(folder: Path, own_network: bool) -> Iterator[int]:
    """Provide the process that holds the namespaces, by its id."""
    unshare: Sequence[str] = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    network = ["--net"] if own_network else []
    with subprocess.Popen(
        [*unshare, *network, "bash", "-euc", HOLDER, "bash", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise PodmanError("the namespaces for podman could not be made (are you root?)")
        try:
            yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        finally:
            # Process 1 of the namespace ends last.
            process.stdin.close()
