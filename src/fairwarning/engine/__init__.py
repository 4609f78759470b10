"""Runs the core: load, decide, commit, publish, in that order.

Owns time, ids and the order of things. Knows the rooms around it only through the protocols in ``ports``; may
import ``core`` and the standard library. Start with ``engine``.
"""
