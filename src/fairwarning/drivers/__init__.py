"""Drivers carry out impacts: one module per kind of machine.

A driver may import ``core``, ``engine.ports`` and its own client library. Start with ``simulated``.
"""
