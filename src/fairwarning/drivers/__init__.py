"""What makes impacts happen: one module per kind of machine.

May import ``core``, ``engine.ports`` and its own client library. Start with ``simulated``.
"""
