"""What is true about scheduled events, and nothing else.

Everything in this room is a value, a table or a pure function. Nothing here reads a clock, makes an
identifier, opens a file or waits; whatever is needed arrives as an argument. It may import the
standard library without its I/O parts, and no other room. Start with ``lifecycle``, then ``decide``.
"""
