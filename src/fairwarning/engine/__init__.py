"""Runs the core: load, decide, commit, publish, in that order.

The engine owns time, ids and the order of decisions. It knows stores and drivers only through the protocols
in ``ports``, and imports ``core`` and the standard library. Start with ``engine``.
"""
