"""Texts that every package writes the same way: durations, timestamps, Prometheus metrics.

Imports nothing of fairwarning.
"""
