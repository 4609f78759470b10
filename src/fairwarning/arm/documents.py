"""JSON documents as Azure reads them: member names are case-insensitive."""

from fairwarning.core.azure.members import deep_merge as deep_merge
from fairwarning.core.azure.members import get_items as get_items
from fairwarning.core.azure.members import get_path as get_path
from fairwarning.core.azure.members import merge as merge
from fairwarning.core.document.render import Json

Document = dict[str, Json]


class CaseInsensitiveFields:
    """Fields that are found in any case, without a search for each."""

    def __init__(self, fields: Document) -> None:
        self.fields = fields
        # Of several spellings, the first counts.
        self._spellings = {name.lower(): name for name in reversed(fields)}

    def spelling(self, name: str) -> str | None:
        """Return the name of a field as it is declared, or None."""
        return self._spellings.get(name.lower())

    def get(self, name: str) -> Json:
        """Return the value of a field, or None."""
        spelling = self.spelling(name)
        return None if spelling is None else self.fields[spelling]


def get_fields(document: Json, *path: str) -> Document:
    """Return the object at a path of a document; an empty object if there is none."""
    fields = get_path(document, *path)
    return fields if isinstance(fields, dict) else {}


def overlay(document: Json, more: Document) -> Document:
    """Return a document with another one merged into it; tags are replaced, not merged."""
    merged = deep_merge(document, more)
    if not isinstance(merged, dict):
        return {}
    tags = get_path(more, "tags")
    return merged if tags is None else {**merged, "tags": tags}


def fill(document: Document, defaults: Document) -> Document:
    """Return a document with defaults for the members that are missing or null, at any depth."""
    spellings = {name.lower(): name for name in document}
    filled = dict(document)
    for name, default in defaults.items():
        key = spellings.get(name.lower(), name)
        value = filled.get(key)
        if value is None:
            filled[key] = default
        elif isinstance(value, dict) and isinstance(default, dict):
            filled[key] = fill(value, default)
    return filled


def without(document: Document, *path: str) -> Document:
    """Return a document without the member at a path."""
    first, rest = path[0].lower(), path[1:]
    return {
        name: without(value, *rest) if isinstance(value, dict) and name.lower() == first else value
        for name, value in document.items()
        if rest or name.lower() != first
    }


#: Members that are accepted, but neither stored in a document nor returned, in lower case.
_SECRETS = frozenset(
    {
        "accesskey",
        "accountkey",
        "additionalunattendcontent",
        "administratorloginpassword",
        "adminpassword",
        "authorizationkey",
        "clientsecret",
        "connectionstring",
        "customdata",
        "passphrase",
        "password",
        "presharedkey",
        "primarykey",
        "privatekey",
        "protectedparameters",
        "protectedsettings",
        "radiusserversecret",
        "runaspassword",
        "sastoken",
        "secondarykey",
        "secret",
        "sharedkey",
        "sharedsecret",
        "storageaccountkey",
        "userdata",
    }
)


def without_secrets(document: Json) -> Json:
    """Return a document without passwords and other secrets; the names of tags are the user's own."""
    if isinstance(document, list):
        return [without_secrets(item) for item in document]
    if not isinstance(document, dict):
        return document
    return {
        name: value if name.lower() == "tags" else without_secrets(value)
        for name, value in document.items()
        if name.lower() not in _SECRETS
    }
