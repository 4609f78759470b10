"""Members of JSON documents as Azure reads them: their names are case-insensitive."""

from fairwarning.core.document.render import Json


def get_path(document: Json, *path: str) -> Json:
    """Return the value at a path of a document, or None."""
    for key in path:
        if not isinstance(document, dict):
            return None
        if key in document:
            document = document[key]
        else:
            folded = key.lower()
            document = next((value for name, value in document.items() if name.lower() == folded), None)
    return document


def get_items(document: Json, *path: str) -> list[Json]:
    """Return the list at a path of a document; an empty list if there is none."""
    items = get_path(document, *path)
    return items if isinstance(items, list) else []


def deep_merge(old: Json, new: Json) -> Json:
    """Return ``old`` with ``new`` over it: objects are merged, everything else is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    spellings = {} if new.keys() <= old.keys() else {name.lower(): name for name in old}
    merged = dict(old)
    for name, value in new.items():
        key = name if name in old else spellings.get(name.lower(), name)
        merged[key] = deep_merge(old[key], value) if key in old and isinstance(value, dict) else value
    return merged
