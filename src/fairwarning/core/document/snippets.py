"""What a guest asks of its endpoint, as commands that a person can paste to be the guest."""

from collections.abc import Iterable

from fairwarning.core.document.render import EVENTS_PATH, start_request

#: How a way to a machine's endpoint begins that says which address the machine calls from.
_FROM = "--interface "


def interface(address: str) -> str:
    """Return the words that make curl call from an address."""
    return f"{_FROM}{address}"


def source(ways: Iterable[str]) -> str | None:
    """Return the address that a machine has to call from, if it is known by that alone."""
    return next((way.removeprefix(_FROM) for way in ways if way.startswith(_FROM)), None)


def poll(base: str, version: str, ways: Iterable[str] = ()) -> str:
    """Return the command that asks for a machine's document; the other ways to it say who calls."""
    address = source(ways)
    caller = "" if address is None else f"{interface(address)} "
    return f'curl {caller}-H Metadata:true "{base}{EVENTS_PATH}?api-version={version}"'


def approve(base: str, version: str, event: str, ways: Iterable[str] = ()) -> str:
    """Return the command that approves an event from inside a machine."""
    return f"{poll(base, version, ways)} -d '{start_request(event).decode()}'"
