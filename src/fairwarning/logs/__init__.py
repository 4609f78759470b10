"""The log of a server: one line per request and per step of an event, as text or as JSON.

``journal`` turns journal lines into log lines, ``follow`` logs them as they are committed, and ``output``
writes all log lines of the process. Imports ``engine``, ``core`` and ``formats``. Start with ``journal``.
"""
