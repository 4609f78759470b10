"""Text formats that packages share: durations, timestamps, counts, log messages, metrics, hidden characters.

Imports nothing of fairwarning.
"""
