"""What callers can ask for: one function per action, whichever API the caller uses.

``Control`` has the actions, and ``Draft`` makes the commands of one request. The APIs translate requests into
calls of this package and results into responses; only this package builds commands that somebody asked for.
May import ``core`` and ``engine``. Start with ``control``.
"""
