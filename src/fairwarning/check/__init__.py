"""Checks whether a handler is safe: runs scenarios against it and judges what it did.

May import ``core``, ``formats``, ``sandbox`` and the engine's clock, and uses a server of its own as any
client does. A scenario is data (``scenario.py``, ``scenarios/*.toml``). ``run_scenario.py`` runs a scenario
and returns the observations; ``judge.py`` alone turns observations into verdicts; ``lateness.py`` says when
this machine is too slow for that. Start reading at ``scenario.py``, then ``run_scenario.py``.
"""
