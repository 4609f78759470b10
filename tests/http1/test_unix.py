"""A unix socket belongs to the server that listens on it."""

import socket
from pathlib import Path

import pytest

from fairwarning.http1.sockets import bind_unix as bind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "web_0.sock"


def test_a_socket_on_which_somebody_answers_is_not_taken_over(path: Path) -> None:
    first, _ = bind(path, 0o600)
    with first:
        first.listen(1)

        with pytest.raises(OSError, match="another server answers there"):
            bind(path, 0o600)

        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_a_socket_on_which_somebody_is_too_busy_to_answer_is_not_taken_over(path: Path) -> None:
    first, _ = bind(path, 0o600)
    with first, socket.socket(socket.AF_UNIX) as waiting:
        first.listen(0)
        waiting.connect(str(path))

        with pytest.raises(OSError, match="another server answers there"):
            bind(path, 0o600)


def test_a_socket_that_was_left_behind_is_taken_over(path: Path) -> None:
    bind(path, 0o600)[0].close()

    second, file = bind(path, 0o600)
    second.close()
    file.remove()

    assert not path.exists()


def test_what_somebody_else_has_put_in_the_place_of_a_socket_stays(path: Path) -> None:
    first, file = bind(path, 0o600)
    with first:
        path.unlink()
        second, _ = bind(path, 0o600)
        second.close()

        file.remove()

    assert path.is_socket()


def test_a_file_that_is_no_socket_stays(path: Path) -> None:
    path.write_text("mine")

    with pytest.raises(OSError, match="in use"):
        bind(path, 0o600)

    assert path.read_text() == "mine"
