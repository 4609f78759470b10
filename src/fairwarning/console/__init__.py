"""The web console: pages that show the fleet, and forms that change it.

The server renders every page completely; scripts only add live updates and countdowns. The package turns
forms into calls of ``control`` and state into HTML, and decides nothing. It may import ``core``, ``engine``,
``control``, ``access``, Starlette and Jinja2. Start with ``page``, which defines a page, then read
``pages.routes``, the table of all pages and forms.
"""
