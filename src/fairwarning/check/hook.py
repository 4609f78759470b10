"""The hook that a handler is offered: a program that asks the play how it ends.

It is run by its path, by an interpreter without site packages, because a handler must not wait for it.
Usage: hook.py HOST PORT PATH [EVENT].
"""

import socket
import sys

_REQUEST = "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def main(host: str, port: str, path: str, event: str = "") -> int:
    """Return 0 if the machine is as it should be now, else 1."""
    with socket.create_connection((host, int(port))) as line:
        line.sendall(_REQUEST.format(f"{path}/{event}", host).encode())
        answer = line.recv(64)
    return 0 if answer.split(b" ")[1:2] == [b"200"] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
