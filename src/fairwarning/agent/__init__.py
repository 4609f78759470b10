"""The agent that runs inside a guest: it drains the machine before an event, approves, and recovers.

It needs the standard library, ``core`` and ``formats``, so that it can be installed on any machine as one
file. Start reading at ``plan.py``, which decides; ``loop.py`` carries the plan out, ``journal.py`` keeps
the state across the reboot that the agent prepares for, and ``hooks/`` act on the machine.
"""
