"""Commands that a person can paste to be the guest."""

import json

from fairwarning.core.policy import Profile

NEWEST = "2020-07-01"


def api_version(profile: Profile) -> str:
    """Return the newest api-version that a profile serves."""
    return max(profile.versions) if profile.versions else NEWEST


def poll(base: str, version: str) -> str:
    """Return the command that asks for a machine's document."""
    return f'curl -H Metadata:true "{base}/metadata/scheduledevents?api-version={version}"'


def approve(base: str, version: str, event: str) -> str:
    """Return the command that approves an event from inside a machine."""
    body = json.dumps({"StartRequests": [{"EventId": event}]}, separators=(",", ":"))
    return f"{poll(base, version)} -d '{body}'"
