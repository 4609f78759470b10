"""Fair warning for machines: the Scheduled Events service."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairwarning.agent.embed import Client, Notice
else:

    def __getattr__(name: str) -> object:
        """Bring in what applications embed once it is asked for: nobody else should pay for it."""
        if name in ("Client", "Notice"):
            return getattr(import_module("fairwarning.agent.embed"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Client", "Notice", "__version__"]
__version__ = "0.1.0"
