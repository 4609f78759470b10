"""Text formats that packages share: durations, timestamps, counts, Prometheus metrics, hidden characters.

Imports nothing of fairwarning.
"""
