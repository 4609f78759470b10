"""One deadline for a whole exchange over HTTP.

A socket's own timeout starts anew with every byte, so a server that sends one byte every few seconds could
hold a client for hours. Here the connection is shut down once the time is up, whatever has arrived by then.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.client import HTTPConnection, HTTPException


@contextmanager
def deadline(connection: HTTPConnection, length: timedelta) -> Iterator[None]:
    """Close ``connection`` at the end of the block, and hang up if the block takes longer than ``length``.

    Raises:
        TimeoutError: the block took too long; an answer that was cut off may look like a whole one.
    """
    late = threading.Event()
    alarm = threading.Timer(length.total_seconds(), _hang_up, [connection, late])
    alarm.daemon = True
    alarm.start()
    try:
        yield
        if late.is_set():
            raise TimeoutError("the answer took too long")
    except (OSError, HTTPException):
        if late.is_set():
            raise TimeoutError("the answer took too long") from None
        raise
    finally:
        alarm.cancel()
        connection.close()


def _hang_up(connection: HTTPConnection, late: threading.Event) -> None:
    late.set()
    # Without a socket the connection is not made yet, and the socket's own timeout ends the attempt.
    with suppress(AttributeError, OSError):
        connection.sock.shutdown(socket.SHUT_RDWR)
