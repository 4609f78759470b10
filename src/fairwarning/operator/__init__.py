"""What fleet operators call: ``/fleet/v1``.

Turns requests into commands and state into answers; decides nothing. May import ``core``, ``engine``,
``access``, Starlette and msgspec. Start with ``routes``, the table of everything there is, then ``events``.
"""
