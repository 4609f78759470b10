"""The web console: see the warning, press the button.

Pages are made by the server and complete without scripts; with them they are live. Turns forms into commands
and state into pages; decides nothing. May import ``core``, ``engine``, ``access``, Starlette and Jinja2.
Start with ``page``, which says what a page is, then ``routes``, the table of everything there is.
"""
