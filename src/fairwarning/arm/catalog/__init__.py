"""What Azure offers: regions, resource providers, machine sizes and images.

The answers are fixed. They live in the JSON files of this folder and are read once, when the package is
imported. ``images.json`` still holds the alias ``UbuntuLTS``: Azure has withdrawn it, but documented commands
use it.
"""

import json
from importlib.resources import files

from fairwarning.core.document.render import Json


def _read(name: str) -> list[dict[str, Json]]:
    entries: list[dict[str, Json]] = json.loads((files(__name__) / f"{name}.json").read_text())
    return entries


TENANTS = _read("tenants")
SUBSCRIPTIONS = _read("subscriptions")
REGIONS = _read("locations")
PROVIDERS = _read("providers")
USAGES = _read("usages")
#: The sizes of machines: as a list of sizes, and as a list of SKUs with their capabilities.
SIZES = _read("sizes")
SKUS = _read("skus")
#: The images that az has short names for, and what all images have in common.
IMAGES = _read("images")
(IMAGE_PROPERTIES,) = _read("image")
