"""Unmodified programs reach their machine's endpoint at the address that they have hard-coded."""

import socket
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.programs import (
    ASYNCIO,
    CURL,
    HOST_NAME,
    JAVA,
    NODE,
    REQUEST,
    THREADS,
    URLLIB,
    VM,
    Exec,
    present,
    python,
)

CLIENTS = [
    pytest.param(CURL, id="curl"),
    pytest.param(URLLIB, id="Python's urllib"),
    pytest.param(ASYNCIO, id="Python's asyncio"),
    pytest.param(THREADS, id="32 connections from 16 threads"),
    pytest.param(("node", "-e", NODE), id="Node's fetch"),
    pytest.param(("sh", "-c", 'sh -c \'"$@" & wait $!\' sh "$@"', "sh", *CURL), id="a child of a child"),
]

RAW = f"""
import socket, sys
family, host, port = sys.argv[1:]
with socket.socket(getattr(socket, family)) as asking:
    asking.settimeout(20)
    asking.connect((host, int(port)))
    asking.sendall({REQUEST.encode()!r})
    print(asking.makefile().read().rpartition("\\n")[2])
"""

ADDRESSES = [
    pytest.param(("AF_INET", "168.63.129.16", "80"), id="the wire server"),
    pytest.param(("AF_INET", "168.63.129.16", "8080"), id="the wire server's other port"),
    pytest.param(("AF_INET6", "::ffff:169.254.169.254", "80"), id="IPv4 mapped into IPv6"),
]

ELSEWHERE = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as asking:
    print(asking.recv(100).decode(), asking.getpeername()[1])
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_finds_its_machine(redirecting: Exec, client: tuple[str, ...] | str) -> None:
    done = redirecting.run(*present(client))

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_in_isolation_finds_its_machine(isolating: Exec, client: tuple[str, ...] | str) -> None:
    done = isolating.run(*present(client), isolate=True)

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


def test_a_static_program_finds_its_machine_and_its_memory_stays_as_it_was(
    redirecting: Exec, static: Path
) -> None:
    done = redirecting.run(str(static))

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


@pytest.mark.slow
def test_a_static_program_in_isolation_finds_its_machine(isolating: Exec, static: Path) -> None:
    done = isolating.run(str(static), isolate=True)

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


@pytest.mark.slow
@pytest.mark.needs("javac")
def test_both_clients_of_java_find_their_machine(redirecting: Exec, public_directory: Path) -> None:
    (public_directory / "Ask.java").write_text(JAVA)
    subprocess.run(["javac", "-d", public_directory, public_directory / "Ask.java"], check=True)
    for built in public_directory.glob("*.class"):
        built.chmod(0o644)

    done = redirecting.run("java", "-cp", str(public_directory), "Ask")

    assert (done.code, done.stdout.split()) == (0, [VM, VM]), done.stderr


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_other_addresses_lead_there_too(redirecting: Exec, address: tuple[str, ...]) -> None:
    done = redirecting.run(*python(RAW, *address))

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


@pytest.mark.slow
@pytest.mark.parametrize("address", ADDRESSES)
def test_the_other_addresses_exist_in_isolation(isolating: Exec, address: tuple[str, ...]) -> None:
    done = isolating.run(*python(RAW, *address), isolate=True)

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


def test_other_connections_are_left_alone(redirecting: Exec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        process = redirecting.start(*python(ELSEWHERE, str(port)))
        with process, server.accept()[0] as arrived:
            arrived.sendall(b"hello")
            out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, f"hello {port}\n", "")


def test_a_datagram_socket_is_left_alone(redirecting: Exec) -> None:
    # To connect one sends nothing; without a route it fails as it would without us.
    code = (
        "import socket, contextlib\n"
        "asking = socket.socket(type=socket.SOCK_DGRAM)\n"
        "with contextlib.suppress(OSError):\n"
        "    asking.connect(('169.254.169.254', 80))\n"
        "    assert asking.getpeername() == ('169.254.169.254', 80)\n"
    )

    done = redirecting.run(*python(code))

    assert (done.code, done.stderr) == (0, "")


NAMES = [
    pytest.param(("sh", "-c", "sh -c hostname & wait"), id="a child of a child"),
    pytest.param("import socket; print(socket.gethostname())", id="Python"),
    pytest.param(("node", "-p", "os.hostname()"), id="Node", marks=pytest.mark.slow),
]


@pytest.mark.rule("S-06")
@pytest.mark.parametrize("program", NAMES)
def test_a_program_has_the_host_name_of_its_machine(
    redirecting: Exec, program: tuple[str, ...] | str
) -> None:
    done = redirecting.run(*present(program))

    assert (done.code, done.stdout.strip(), done.stderr) == (0, HOST_NAME, "")


@pytest.mark.rule("S-06")
def test_a_program_that_has_only_the_host_name_changed_sees_the_same_kernel(redirecting: Exec) -> None:
    inside = redirecting.run("uname", "-srvmo")

    assert inside.stdout == subprocess.run(["uname", "-srvmo"], capture_output=True, text=True).stdout


@pytest.mark.rule("S-06")
def test_isolation_means_the_machines_name_the_same_user_and_no_other_network(isolating: Exec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import os, socket\n"
            "print(socket.gethostname(), os.getuid(), "
            f"socket.socket().connect_ex(('127.0.0.1', {port})) != 0)\n"
        )

        outside = isolating.run("id", "-u")
        inside = isolating.run(*python(code), isolate=True)

    assert (inside.code, inside.stderr) == (0, "")
    assert inside.stdout.split() == [HOST_NAME, outside.stdout.strip(), "True"]
