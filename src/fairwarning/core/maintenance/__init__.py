"""Host maintenance: on a date, under a budget, with the consent of the machines' owners.

``values`` has what is stored. ``maintain`` answers commands, ``release`` says what may start, and
``bookkeeping`` keeps the stored values in step with the events.
"""
