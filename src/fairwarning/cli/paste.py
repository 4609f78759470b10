"""Which api-version the commands are written for that a person can paste to be the guest."""

from fairwarning.core.document.versions import NEWEST
from fairwarning.core.policy import Profile


def api_version(profile: Profile) -> str:
    """Return the newest api-version that a profile serves."""
    return max(profile.versions) if profile.versions else NEWEST
