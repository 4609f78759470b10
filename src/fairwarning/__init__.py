"""Fair warning for machines: the Scheduled Events service."""

__version__ = "0.1.0"
