"""Says whether a handler is safe: plays scenarios to it and judges what it did.

May import ``core`` and ``sandbox``, and talks to a server of its own as any client does. A scenario is data
(``scenario.py``, ``scenarios/*.toml``); ``play.py`` plays one to the handler and returns what was observed,
which ``judge.py`` alone turns into verdicts. Start reading at ``scenario.py``, then ``play.py``.
"""
