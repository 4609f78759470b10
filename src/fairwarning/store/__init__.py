"""Where fleets are kept: one module per database, one contract for all.

May import ``core``, ``engine.ports`` and its own client library. Start with ``memory``, then ``sqlite``.
"""
