"""Azure Scheduled Events, to run and to test against.

This module and ``fairwarning.testing`` are public: their ``__all__`` follows semantic versioning, and
``docs/reference/public-api.md`` lists it. Every other module is private and may change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairwarning.agent.client import RefusedError, UnavailableError
    from fairwarning.agent.discovery import NoEndpointError
    from fairwarning.agent.embed import Client, NamesOthersError, Notice
    from fairwarning.core.errors import FairWarningError, InvalidError
else:
    _MODULES = {
        "Client": "fairwarning.agent.embed",
        "FairWarningError": "fairwarning.core.errors",
        "InvalidError": "fairwarning.core.errors",
        "NamesOthersError": "fairwarning.agent.embed",
        "NoEndpointError": "fairwarning.agent.discovery",
        "Notice": "fairwarning.agent.embed",
        "RefusedError": "fairwarning.agent.client",
        "UnavailableError": "fairwarning.agent.client",
    }

    def __getattr__(name: str) -> object:
        """Load a public name at first use, so that commands do not pay for a client they do not need."""
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Client",
    "FairWarningError",
    "InvalidError",
    "NamesOthersError",
    "NoEndpointError",
    "Notice",
    "RefusedError",
    "UnavailableError",
    "__version__",
]
__version__ = "0.3.0.dev0"
