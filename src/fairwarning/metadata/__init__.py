"""What guests see at 169.254.169.254.

May import ``core`` and ``engine`` only. Start reading with ``app.py``; ``http.py`` and
``server.py`` carry the requests to it.
"""
