"""Text formats that every package shares: durations, timestamps, Prometheus metrics, hidden characters.

Imports nothing of fairwarning.
"""
