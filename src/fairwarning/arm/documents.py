"""JSON documents as Azure reads them: member names are case-insensitive."""

from fairwarning.core.document.render import Json

Document = dict[str, Json]


def get_path(document: Json, *path: str) -> Json:
    """Return the value at a path of a document, or None."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = next((value for name, value in document.items() if name.lower() == key.lower()), None)
    return document


def get_items(document: Json, *path: str) -> list[Json]:
    """Return the list at a path of a document; an empty list if there is none."""
    items = get_path(document, *path)
    return items if isinstance(items, list) else []


def deep_merge(old: Json, new: Json) -> Json:
    """Return ``old`` with ``new`` over it: objects are merged, everything else is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    spellings = {name.lower(): name for name in old}
    merged = dict(old)
    for name, value in new.items():
        key = spellings.get(name.lower(), name)
        merged[key] = deep_merge(merged[key], value) if key in merged else value
    return merged


def overlay(document: Json, more: Document) -> Document:
    """Return a document with another one merged into it; tags are replaced, not merged."""
    merged = deep_merge(document, more)
    if not isinstance(merged, dict):
        return {}
    tags = get_path(more, "tags")
    return merged if tags is None else {**merged, "tags": tags}
