"""``serve --workers``: several nodes on one host, as processes of one supervisor.

The supervisor opens every listening socket, gives each worker its own, and never serves a guest itself. To a
worker it is what systemd is to a service: it passes sockets, is told through NOTIFY_SOCKET when the worker
is ready, and ends a worker that gives no sign of life. May import ``http1``, ``access``, ``core``,
``formats`` and ``sandbox.syscalls``. Start reading at ``supervisor.py``.
"""
