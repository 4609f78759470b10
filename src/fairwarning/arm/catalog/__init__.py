"""What Azure offers: regions, resource providers, machine sizes and images.

The data is fixed. It lives in the JSON files of this folder and is read once, when the package is imported.
The order of the entries is the order of the answers. ``images.json`` still holds the alias ``UbuntuLTS``:
Azure has withdrawn it, but documented commands use it.
"""

from importlib.resources import files
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Region(msgspec.Struct, frozen=True):
    """A region of Azure."""

    name: str
    display_name: str
    geography: str
    latitude: str
    longitude: str
    paired_region: str


class ResourceProvider(msgspec.Struct, frozen=True):
    """A namespace with its resource types, and its api-versions from newest to oldest."""

    namespace: str
    resource_types: tuple[str, ...]
    api_versions: tuple[str, ...]


class MachineSize(msgspec.Struct, frozen=True):
    """A size of machines."""

    name: str
    cores: int
    memory_gb: float
    data_disks: int


class MachineSizes(msgspec.Struct, frozen=True):
    """All sizes, and the capabilities that every size has."""

    sizes: tuple[MachineSize, ...]
    capabilities: dict[str, str]


class ImageAlias(msgspec.Struct, frozen=True):
    """An image under the short name that az has for it."""

    alias: str
    system: str
    publisher: str
    offer: str
    sku: str


def _load(name: str, shape: type[T]) -> T:
    return msgspec.json.decode((files(__name__) / name).read_bytes(), type=shape)


REGIONS = _load("locations.json", tuple[Region, ...])
PROVIDERS = _load("providers.json", tuple[ResourceProvider, ...])
SIZES = _load("sizes.json", MachineSizes)
IMAGES = _load("images.json", tuple[ImageAlias, ...])
