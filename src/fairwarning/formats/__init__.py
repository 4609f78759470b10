"""Text formats that packages share: durations, instants, counts, logs, metrics, TOML, hidden characters.

Imports nothing of fairwarning.
"""
