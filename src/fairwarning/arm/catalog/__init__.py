"""What Azure offers: regions, resource providers, machine sizes and images, and the members of resources.

The answers are fixed. They live in the JSON files of this folder and are read once, when the package is
imported. ``images.json`` still holds the alias ``UbuntuLTS``: Azure has withdrawn it, but documented commands
use it.
"""

import json
from importlib.resources import files

from fairwarning.core.document.render import Json


def read(name: str, base: str = "") -> list[dict[str, Json]]:
    """Return the entries of a file; ``base`` is the address of the server, where they name it."""
    text = (files(__name__) / f"{name}.json").read_text().replace("{base}", base)
    entries: list[dict[str, Json]] = json.loads(text)
    return entries


TENANTS = read("tenants")
SUBSCRIPTIONS = read("subscriptions")
REGIONS = read("locations")
PROVIDERS = read("providers")
USAGES = read("usages")
#: The sizes of machines: as a list of sizes, and as a list of SKUs with their capabilities.
SIZES = read("sizes")
SKUS = read("skus")
#: The families of all sizes of Azure, by tier; the sizes above are a selection.
SIZE_FAMILIES = read("size_families")
#: The images that az has short names for, and what all images have in common.
IMAGES = read("images")
(IMAGE_PROPERTIES,) = read("image")
#: The types of objects in compute resources, with their members by the api-version that added them.
MEMBERS = read("members")
#: What Azure fills in where a client has sent nothing: objects by what they are filled into.
DEFAULTS: dict[str, dict[str, Json]] = {
    name: value for name, value in read("defaults")[0].items() if isinstance(value, dict)
}
