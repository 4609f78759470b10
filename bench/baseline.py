"""The least that waking guests can cost: the same bytes written to as many connections, and nothing else.

``python -m bench.baseline CONNECTIONS SIZE`` says its port and takes the connections. Whenever SIZE bytes
come from standard input, every connection is sent them.
"""

import os
import socket
import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """Serve as the command line says, until nothing more comes."""
    count, size = map(int, words)
    with socket.create_server(("127.0.0.1", 0), backlog=count) as door:
        print(door.getsockname()[1], flush=True)
        taken = [door.accept()[0] for _ in range(count)]
    everybody = [one.fileno() for one in taken]
    while answer := sys.stdin.buffer.read(size):
        for one in everybody:
            os.write(one, answer)


if __name__ == "__main__":
    main(sys.argv[1:])
