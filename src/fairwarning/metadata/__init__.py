"""The metadata API: what guests see at 169.254.169.254.

Imports ``core``, ``engine``, ``control`` and ``http1`` alone. Start with ``app.py``, which answers requests;
``listeners.py`` opens the addresses, and ``http1`` carries the requests to the application.
``docs/poll.md`` follows a poll and an approval through the files.
"""
