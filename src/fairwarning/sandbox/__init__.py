"""Gives a program Azure's addresses and names on a machine that is not an Azure guest (Linux, no root).

May import ``core`` and the standard library. ``redirect.py`` redirects single connections and leaves the
rest of the network alone; ``isolate.py`` makes a network in which the addresses exist; ``proxy.py`` connects
the names of the management API. In all modes ``supervise.py`` starts the program, forwards signals and the
exit code, and ends every process that the program leaves behind. ``seccomp.py`` and ``syscalls.py`` hold the
calls to the kernel. Start reading at ``supervise.py``.
"""
