"""Text formats that packages share: durations, timestamps, counts, logs, metrics, TOML, hidden characters.

Imports nothing of fairwarning.
"""
