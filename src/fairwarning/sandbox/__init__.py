"""Gives a program the addresses that Azure's endpoints have, on a machine that is no guest (Linux, no root).

May import ``core`` and the standard library. ``redirect.py`` turns single connections aside and leaves the
rest of the network alone; ``isolate.py`` makes a network in which the addresses exist. Either way
``supervise.py`` starts the program, hands signals and the exit code through, and lets nothing outlive it.
What the kernel is asked for is in ``seccomp.py`` and ``syscalls.py``. Start reading at ``supervise.py``.
"""
