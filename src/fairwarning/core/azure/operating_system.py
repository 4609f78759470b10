"""Which operating system a machine runs, as far as its image and its profile tell."""

from typing import Literal

from fairwarning.core.azure.members import get_path
from fairwarning.core.document.render import Json

OsType = Literal["Linux", "Windows"]

#: The beginnings of the names of publishers whose images run Windows, in lower case.
_WINDOWS = (
    "microsoftbiztalkserver",
    "microsoftdynamics",
    "microsoftsharepoint",
    "microsoftsqlserver",
    "microsoftvisualstudio",
    "microsoftwindows",
)
#: What the offers of these publishers contain if their images run Linux nevertheless.
_LINUX = ("rhel", "sles", "ubuntu")


def image_os_type(publisher: str, offer: str) -> OsType:
    """Return the operating system of an image of the marketplace."""
    is_windows = publisher.lower().startswith(_WINDOWS) and not any(word in offer.lower() for word in _LINUX)
    return "Windows" if is_windows else "Linux"


def os_type(*profiles: Json) -> OsType:
    """Return the operating system that the first telling profile names: of a machine, or of its scale set."""
    for profile in profiles:
        image = get_path(profile, "storageProfile", "imageReference")
        publisher, offer = get_path(image, "publisher"), get_path(image, "offer")
        if isinstance(publisher, str) and publisher:
            return image_os_type(publisher, str(offer))
        named = str(get_path(profile, "storageProfile", "osDisk", "osType")).lower()
        if named == "windows" or get_path(profile, "osProfile", "windowsConfiguration") is not None:
            return "Windows"
        if named == "linux":
            return "Linux"
    return "Linux"
