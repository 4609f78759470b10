"""What runs inside a guest: hears the warning, gets the machine ready, says so, and puts it back to work.

Needs the standard library and ``core``, nothing else, so that it can be dropped on any machine as one file.
Start reading at ``plan.py``, which decides everything; ``loop.py`` does what it says, ``journal.py``
remembers it across the very reboot it prepared for, and ``hooks/`` are what can be done to get ready.
"""
