"""curl commands that poll and approve as a guest, for people to paste.

If a machine is identified by its source address, one of its *alternatives* is the curl option ``--interface``
with the address to call from.
"""

from collections.abc import Iterable

from fairwarning.core.document.render import EVENTS_PATH, render_start_request

_INTERFACE = "--interface "


def interface_option(address: str) -> str:
    """Return the curl option that selects a source address."""
    return f"{_INTERFACE}{address}"


def source_address(alternatives: Iterable[str]) -> str | None:
    """Return the address that a machine has to call from; None if its endpoint has an address of its own."""
    options = (option for option in alternatives if option.startswith(_INTERFACE))
    return next((option.removeprefix(_INTERFACE) for option in options), None)


def poll_command(base: str, version: str, alternatives: Iterable[str] = ()) -> str:
    """Return the command that polls a machine's document."""
    address = source_address(alternatives)
    option = "" if address is None else f"{interface_option(address)} "
    return f'curl {option}-H Metadata:true "{base}{EVENTS_PATH}?api-version={version}"'


def approve_command(base: str, version: str, event: str, alternatives: Iterable[str] = ()) -> str:
    """Return the command that approves an event from inside a machine."""
    return f"{poll_command(base, version, alternatives)} -d '{render_start_request(event).decode()}'"
