"""The lower bound for waking guests: writes the same bytes to all connections, and does nothing else.

``python -m bench.baseline CONNECTIONS SIZE`` prints its port and accepts the connections. It copies each SIZE
bytes from standard input to every connection.
"""

import os
import socket
import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """Serve until standard input ends."""
    count, size = map(int, words)
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        print(listener.getsockname()[1], flush=True)
        connections = [listener.accept()[0] for _ in range(count)]
    descriptors = [connection.fileno() for connection in connections]
    while answer := sys.stdin.buffer.read(size):
        for descriptor in descriptors:
            os.write(descriptor, answer)


if __name__ == "__main__":
    main(sys.argv[1:])
