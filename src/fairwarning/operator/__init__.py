"""The operator API: ``/fleet/v1``.

Turns requests into calls of ``control`` and state into responses; decides nothing. May import ``core``,
``engine``, ``control``, ``access``, Starlette and msgspec. Start with ``routes``, the table of all routes,
then ``events``.
"""
