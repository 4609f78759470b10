"""Stores: one module per database, one contract for all (``engine.ports.Store``).

A store may import ``core``, ``engine.ports`` and its own client library. Start with ``memory``, then
``sqlite``.
"""
