"""What guests see at 169.254.169.254.

May import ``core`` and ``engine`` only. Start reading with ``app.py``, which answers; ``server.py`` and what
it names carry the requests to it. ``docs/poll.md`` walks a poll through the files.
"""
