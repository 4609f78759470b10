"""A newcomer's first minutes: the two commands of the README in a fresh clone, in a minimal Debian.

    .venv/bin/python -m tools.newcomer [--up-only] [bookworm] [trixie]

runs ``./dev up`` until a poll has seen its first warning, and then ``./dev test``, as an ordinary user. It
prints the seconds from the clone to the first warning. Needs what ``tools.roots`` needs, and the ports of the
README: the network of the root is that of this machine.
"""

import argparse
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from tools.roots import BOOKWORM, NEEDED, Root, bare_root, clone

RELEASES: Mapping[str, str] = {BOOKWORM: "Debian 12", "trixie": "Debian 13"}

#: The ports of ``up``: console and operator API, the first machine, management API.
PORTS = (8080, 8101, 8443)

#: What the README says, in one terminal. A minimal Debian has no curl, so Python polls.
SESSION = """
poll() {
    python3 -c '
from urllib.request import Request, urlopen
url = "http://127.0.0.1:8101/metadata/scheduledevents?api-version=2020-07-01"
print(urlopen(Request(url, headers={"Metadata": "true"})).read().decode())' 2>/dev/null
}
./dev up >up.log 2>&1 &
until poll; do
    kill -0 $! || { cat up.log; exit 1; }
    sleep 0.1
done
. .venv/bin/activate
fairwarning cause restart web_0
poll
kill -INT $!
wait $!
"""
WARNING = '"EventType":"Reboot"'


def main(words: Sequence[str]) -> int:
    """Be a newcomer to each of the releases; return the exit code."""
    parser = argparse.ArgumentParser(
        prog=".ci/bare", description="Run the README's commands in a bare Debian."
    )
    known = ", ".join(RELEASES)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"{known} [default: all of them]")
    parser.add_argument(
        "--up-only", action="store_true", help="./dev up and the first warning, no ./dev test"
    )
    arguments = parser.parse_args(words)
    if unknown := sorted(set(arguments.releases) - set(RELEASES)):
        parser.error(f"unknown release {', '.join(unknown)} (known: {known})")
    if taken := listening(PORTS):
        parser.error(f"something listens on {', '.join(map(str, taken))}, which ./dev up needs")
    passed = [visit(release, arguments.up_only) for release in arguments.releases or RELEASES]
    return 0 if all(passed) else 1


def listening(ports: Sequence[int]) -> list[int]:
    """Return those of the ports on which a program of this machine listens."""
    taken = []
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                taken.append(port)
    return taken


def visit(release: str, up_only: bool) -> bool:
    """Run the commands in one release, and print the newcomer's clock; return whether all was well."""
    with bare_root(*NEEDED, debian=release) as root:
        began = time.monotonic()
        folder = clone(root)
        if (warned := first_warning(root, folder)) is None:
            print(f"bare: {RELEASES[release]}: no warning", flush=True)
            return False
        seconds = f"{warned - began:.0f} s from the clone to the first warning"
        print(f"bare: {RELEASES[release]}: {seconds}", flush=True)
        tests = root.command("./dev", "test", folder=folder)
        return up_only or subprocess.run(tests, stdin=subprocess.DEVNULL).returncode == 0


def first_warning(root: Root, folder: str) -> float | None:
    """Run the session of the README; return when its last poll saw the warning, or None if it failed."""
    warned = None
    command = root.command("sh", "-euc", SESSION, folder=folder)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as terminal:
        assert terminal.stdout is not None
        for line in terminal.stdout:
            print(line, end="", flush=True)
            if WARNING in line:
                warned = time.monotonic()
    return None if terminal.returncode else warned


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
