"""HTTP/1.1 for guests: a parser, connections, transports and a server that know nothing of a fleet.

The metadata API is built on it. Bytes go in and actions come out (``request_parser.py``); a connection
answers requests in order and in time (``connection.py``); two transports carry the bytes, epoll on Linux and
asyncio elsewhere. Imports ``formats`` and ``wakeups`` alone. Start with ``server.py``; see ``docs/poll.md``.
"""
