"""On machines with restrictions, a program still runs, or an error explains why not; never a traceback."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.troubleshooting import assert_quoted
from tests.sandbox.programs import ASYNCIO, CURL, VM, Exec, present

NO_NAMESPACES = "this machine does not allow user and network namespaces: Operation not permitted"
NO_SECCOMP = "this machine does not allow seccomp notifications: Operation not permitted"


def test_without_user_namespaces_the_default_mode_works(redirecting: Exec) -> None:
    done = replace(redirecting, forbidden=("unshare",)).run(*present(CURL))

    assert (done.code, done.stdout, done.stderr) == (0, VM, "")


def test_without_user_namespaces_isolate_says_so_and_goes_on_in_the_default_mode(redirecting: Exec) -> None:
    done = replace(redirecting, forbidden=("unshare",)).run(*present(CURL), isolate=True)

    assert (done.code, done.stdout) == (0, VM)
    assert done.stderr == f"{NO_NAMESPACES}; continuing without --isolate, in the network of this machine\n"


@pytest.mark.parametrize(
    "client",
    [pytest.param(CURL, id="curl"), pytest.param(ASYNCIO, id="asyncio", marks=pytest.mark.slow)],
)
def test_where_sockets_cannot_be_taken_over_a_program_finds_its_machine(
    redirecting: Exec, client: tuple[str, ...] | str
) -> None:
    done = replace(redirecting, forbidden=("pidfd_getfd",)).run(*present(client))

    assert (done.code, done.stdout.strip(), done.stderr) == (0, VM, "")


def test_where_sockets_cannot_be_taken_over_the_address_is_rewritten(redirecting: Exec, static: Path) -> None:
    done = replace(redirecting, forbidden=("pidfd_getfd",)).run(str(static))

    assert (done.code, done.stdout.strip()) == (0, VM)
    assert done.stderr == "the address was written over\n"


def test_without_seccomp_the_default_mode_explains_itself(unchecked_exec: Exec) -> None:
    done = replace(unchecked_exec, forbidden=("seccomp",)).run("true")

    assert (done.code, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[:2] == [
        f"error: {NO_SECCOMP}",
        "hint: --isolate may work: it needs user namespaces instead",
    ]
    assert lines[2].startswith("hint: make the program connect to http://127.0.0.1:")
    assert_quoted("The machine does not allow the sandbox", done.stderr)


def test_exec_inside_exec_explains_itself(redirecting: Exec) -> None:
    done = redirecting.run(*redirecting.words("true"))

    assert done.code == 1
    assert done.stderr.startswith("error: this machine does not allow exec inside exec: ")


def test_without_seccomp_isolate_works(isolating: Exec) -> None:
    done = replace(isolating, forbidden=("seccomp",)).run(*present(CURL), isolate=True)

    assert (done.code, done.stdout, done.stderr) == (0, VM, "")


def test_where_nothing_is_allowed_both_reasons_are_given(unchecked_exec: Exec) -> None:
    done = replace(unchecked_exec, forbidden=("seccomp", "unshare")).run("true", isolate=True)

    assert (done.code, done.stdout) == (1, "")
    assert NO_NAMESPACES in done.stderr
    assert f"error: {NO_SECCOMP}\n" in done.stderr


def test_a_machine_that_does_not_exist_is_refused(unchecked_exec: Exec) -> None:
    done = unchecked_exec.run("true", vm="nowhere")

    assert done.code == 1
    assert done.stderr.startswith("error: no machine named nowhere")
    assert "hint: fairwarning vms lists the machines\n" in done.stderr


def test_without_a_server_nothing_is_started() -> None:
    done = Exec(operator="http://127.0.0.1:1").run("echo", "started")

    assert (done.code, done.stdout) == (3, "")
    assert "hint: start one with: fairwarning up\n" in done.stderr
