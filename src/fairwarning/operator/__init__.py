"""The operator API: ``/fleet/v1``.

Turns requests into commands and state into responses; decides nothing. May import ``core``, ``engine``,
``access``, Starlette and msgspec. Start with ``routes``, the table of all routes, then ``events``.
"""
