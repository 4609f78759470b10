"""The rules of Scheduled Events: values, tables and pure functions.

Nothing here reads a clock, creates an identifier, opens a file or waits; every input arrives as an argument.
The package imports ``formats`` and the parts of the standard library that do no I/O. Start with
``lifecycle``, then ``decide``.
"""
