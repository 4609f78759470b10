"""What a guest asks of its endpoint, as commands that a person can paste to be the guest."""

from fairwarning.core.wire import EVENTS_PATH, start_request


def poll(base: str, version: str) -> str:
    """Return the command that asks for a machine's document."""
    return f'curl -H Metadata:true "{base}{EVENTS_PATH}?api-version={version}"'


def approve(base: str, version: str, event: str) -> str:
    """Return the command that approves an event from inside a machine."""
    return f"{poll(base, version)} -d '{start_request(event).decode()}'"
