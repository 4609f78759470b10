"""What callers can ask for: one function per action, whichever API the caller uses.

``Draft`` makes the commands of one request, ``Control`` carries them out. The APIs translate requests into
calls of this package and results into responses; only this package builds commands that somebody asked for.
Start with ``draft``.
"""
