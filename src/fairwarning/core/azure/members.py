"""Members of JSON documents as Azure reads them: their names are case-insensitive."""

from fairwarning.core.document.render import Json


def get_path(document: Json, *path: str) -> Json:
    """Return the value at a path of a document, or None."""
    for key in path:
        if not isinstance(document, dict):
            return None
        folded = key.lower()
        for name, value in document.items():
            if name == key or name.lower() == folded:
                document = value
                break
        else:
            return None
    return document
