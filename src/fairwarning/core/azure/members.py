"""Members of JSON documents as Azure reads them: their names are case-insensitive."""

from fairwarning.core.document.render import Json


def get_path(document: Json, *path: str) -> Json:
    """Return the value at a path of a document, or None."""
    for key in path:
        if not isinstance(document, dict):
            return None
        if key not in document:
            folded = key.lower()
            for name in document:
                if name.lower() == folded:
                    key = name
                    break
        document = document.get(key)
    return document


def get_items(document: Json, *path: str) -> list[Json]:
    """Return the list at a path of a document; an empty list if there is none."""
    items = get_path(document, *path)
    return items if isinstance(items, list) else []


def deep_merge(old: Json, new: Json) -> Json:
    """Return ``old`` with ``new`` over it: objects are merged, everything else is replaced."""
    return merge(old, new) if isinstance(old, dict) and isinstance(new, dict) else new


def merge(old: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    """Return an object with another one merged into it."""
    if not new.keys() <= old.keys():
        spellings = {name.lower(): name for name in old}
        new = {name if name in old else spellings.get(name.lower(), name): new[name] for name in new}
    merged = {**old, **new}
    for name, value in new.items():
        if isinstance(value, dict):
            before = old.get(name)
            if isinstance(before, dict):
                merged[name] = merge(before, value)
    return merged
