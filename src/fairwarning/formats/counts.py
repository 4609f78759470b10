"""Formats numbers of things."""


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 machine``, ``2 machines``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
