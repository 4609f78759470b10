"""The documentation site: ``./dev docs`` builds it from ``docs/`` with zensical.

``staging`` copies the pages into one tree, rewrites the links that leave ``docs/``, and adds pages that are
generated: indexes, the files that pages link to, and the reference (``reference/``). ``zensical.toml`` has
the navigation and the looks. ``links`` reads the finished site, and refuses dead links and resources of other
hosts.
"""
