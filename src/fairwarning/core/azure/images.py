"""Images that machines are created from, and the versions that ``latest`` stands for."""

from collections.abc import Mapping
from typing import NamedTuple


class Image(NamedTuple):
    """The image that a machine was created from: of the marketplace, or one with an id."""

    publisher: str = ""
    offer: str = ""
    sku: str = ""
    version: str = ""
    id: str = ""

    @property
    def exact_version(self) -> str:
        """The version that the machine runs (I-13); empty for an image with an id."""
        if self.id or self.version.lower() != "latest":
            return self.version
        name = (self.publisher.lower(), self.offer.lower(), self.sku.lower())
        return _NEWEST.get(name, UNKNOWN_VERSION)


DEFAULT_IMAGE = Image(
    publisher="Canonical", offer="0001-com-ubuntu-server-jammy", sku="22_04-lts-gen2", version="latest"
)

#: The version of images that the table below does not have.
UNKNOWN_VERSION = "1.0.0"

#: A published version of each image, by publisher, offer and SKU in lower case.
_NEWEST: Mapping[tuple[str, str, str], str] = {
    ("canonical", "0001-com-ubuntu-server-focal", "20_04-lts-gen2"): "20.04.202502181",
    ("canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2"): "22.04.202608060",
    ("canonical", "ubuntu-24_04-lts", "server"): "24.04.202609040",
    ("canonical", "ubuntuserver", "18.04-lts"): "18.04.202305220",
    ("kinvolk", "flatcar-container-linux-free", "stable-gen2"): "3815.2.5",
    ("microsoftwindowsserver", "windowsserver", "2016-datacenter-gensecond"): "14393.5006.220305",
    ("microsoftwindowsserver", "windowsserver", "2019-datacenter-gensecond"): "17763.5576.240304",
    ("microsoftwindowsserver", "windowsserver", "2022-datacenter-g2"): "20348.5622.260906",
    ("openlogic", "centos", "8_5-gen2"): "8.5.2022012101",
    ("redhat", "rhel", "8-lvm-gen2"): "8.5.2022032206",
}
