"""Waits until the database of ``compose.yaml`` accepts connections, then runs a command."""

import os
import socket
import sys
import time

while True:
    try:
        socket.create_connection(("database", 5432), timeout=5).close()
        break
    except OSError:
        time.sleep(1)
os.execvp(sys.argv[1], sys.argv[1:])
