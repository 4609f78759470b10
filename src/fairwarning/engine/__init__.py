"""Runs the core: a replica of the fleet, the decider that changes it, the reconciler that acts on it.

The engine owns time, ids and the order of decisions. It knows stores and drivers only through the protocols
in ``ports``. Start with ``engine``, then follow a request: ``requests``, ``decider``, ``fold``, ``replica``.
"""
