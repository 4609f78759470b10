"""Coerces values to the types that ARM reads from them.

az writes ``"enable": "true"`` and ``"mode": "manual"``; ARM answers ``true`` and ``"Manual"``, and some
versions of az cannot read their own spelling back.
"""

from collections.abc import Mapping

from fairwarning.core.document.render import Json

_BOOLEANS = frozenset(
    {
        "autoupgrademinorversion",
        "automaticallyapprove",
        "disableautomaticrollback",
        "disablepasswordauthentication",
        "enable",
        "enableacceleratednetworking",
        "enableautomaticosupgrade",
        "enableautomaticupdates",
        "enabled",
        "enableipforwarding",
        "overprovision",
        "primary",
        "protectfromscalein",
        "protectfromscalesetactions",
        "provisionvmagent",
        "singleplacementgroup",
        "zonebalance",
    }
)
_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "mode": ("Manual", "Automatic", "Rolling", "Incremental", "Complete"),
    "orchestrationmode": ("Uniform", "Flexible"),
    "priority": ("Regular", "Low", "Spot"),
    "evictionpolicy": ("Deallocate", "Delete"),
}
_TRUTH: Mapping[str, bool] = {"true": True, "false": False}
# The names in here are the user's own: a tag "primary" is a string, not a boolean.
_OPAQUE = frozenset({"tags", "settings", "protectedsettings", "template", "parameters"})


def coerce(document: Json) -> Json:
    """Return a document with booleans for the strings true and false, and known words in ARM's spelling."""
    match document:
        case dict():
            return {name: _member(name.lower(), value) for name, value in document.items()}
        case list():
            return [coerce(item) for item in document]
        case _:
            return document


def _member(name: str, value: Json) -> Json:
    if name in _OPAQUE:
        return value
    if not isinstance(value, str):
        return coerce(value)
    if name in _BOOLEANS:
        return _TRUTH.get(value.lower(), value)
    spellings = {spelling.lower(): spelling for spelling in _SPELLINGS.get(name, ())}
    return spellings.get(value.lower(), value)
