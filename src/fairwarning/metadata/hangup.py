"""The answer that is none: the connection is cut, as if the machine behind it had gone."""

import asyncio
import socket
import struct
from contextlib import suppress

from fairwarning.metadata.http import Response

HANG_UP = Response(0)

_AT_ONCE = struct.pack("ii", 1, 0)


def hang_up(transport: asyncio.Transport) -> None:
    """Reset a connection: what was not sent is dropped, and the other side is told so."""
    with suppress(OSError):  # a unix socket cannot linger
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
