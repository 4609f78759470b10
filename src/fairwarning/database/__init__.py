"""What operators do with a whole database: check it, back it up, restore it, migrate it.

It reads and writes rows as the stores keep them, and runs beside a server or without one. It may import
``store``, ``core``, ``engine.clock``, ``engine.ports`` and ``console.sessions``. Start with ``tables``, then
``check``.
"""
