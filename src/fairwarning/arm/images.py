"""Images: what clients look up to learn what a machine will run, and the short names az has for them."""

from collections.abc import Iterable, Mapping

from fairwarning.arm.call import ArmRequest, ArmResponse
from fairwarning.arm.context import ArmContext
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.document.render import Json

_WINDOWS = "MicrosoftWindowsServer", "WindowsServer"
#: Images by the short names that az knows them by: publisher, offer, sku.
ALIASES: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "Linux": {
        "AzureLinux4": ("microsoftazurelinux", "azurelinux-4", "4"),
        "CentOS85Gen2": ("OpenLogic", "CentOS", "8_5-gen2"),
        "Debian11": ("Debian", "debian-11", "11-backports-gen2"),
        "FlatcarLinuxFreeGen2": ("kinvolk", "flatcar-container-linux-free", "stable-gen2"),
        "OpenSuseLeap154Gen2": ("SUSE", "openSUSE-leap-15-4", "gen2"),
        "RHELRaw8LVMGen2": ("RedHat", "RHEL", "8-lvm-gen2"),
        "SuseSles15SP3": ("SUSE", "sles-15-sp3", "gen2"),
        "Ubuntu2204": ("Canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2"),
        "Ubuntu2404": ("Canonical", "ubuntu-24_04-lts", "server"),
        # Azure has withdrawn this name; the documented commands still use it.
        "UbuntuLTS": ("Canonical", "UbuntuServer", "18.04-LTS"),
    },
    "Windows": {
        "Win2022Datacenter": (*_WINDOWS, "2022-datacenter-g2"),
        "Win2022AzureEditionCore": (*_WINDOWS, "2022-datacenter-azure-edition-core"),
        "Win2019Datacenter": (*_WINDOWS, "2019-datacenter-gensecond"),
        "Win2016Datacenter": (*_WINDOWS, "2016-datacenter-gensecond"),
        "Win2012R2Datacenter": (*_WINDOWS, "2012-R2-Datacenter"),
        "Win2012Datacenter": (*_WINDOWS, "2012-Datacenter"),
    },
}
IMAGE_VERSION = "1.0.0"
_IMAGES = tuple(image for images in ALIASES.values() for image in images.values())


async def aliases(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the document in which az looks up short names of images."""
    value: Json = {
        system: {
            name: {
                "publisher": publisher,
                "offer": offer,
                "sku": sku,
                "version": "latest",
                "architecture": "x64",
            }
            for name, (publisher, offer, sku) in images.items()
        }
        for system, images in ALIASES.items()
    }
    return ArmResponse(body={"outputs": {"aliases": {"type": "object", "value": value}}})


async def publishers(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return who publishes images."""
    return _listed(call, (image[0] for image in _IMAGES))


async def offers(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return what a publisher offers."""
    wanted = call.names["publisher"].lower()
    return _listed(call, (image[1] for image in _IMAGES if image[0].lower() == wanted))


async def skus(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the kinds of an offer."""
    wanted = call.names["publisher"].lower(), call.names["offer"].lower()
    found = (image[2] for image in _IMAGES if (image[0].lower(), image[1].lower()) == wanted)
    return _listed(call, found)


async def versions(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the one version that every image has, known to us or not."""
    return _listed(call, (IMAGE_VERSION,))


async def version(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return what an image is like; what it runs is known by who publishes it."""
    asked = call.names["version"]
    name = IMAGE_VERSION if asked.lower() == "latest" else asked
    windows = call.names["publisher"].lower().startswith("microsoftwindows")
    return ArmResponse(
        body={
            "location": call.names["location"],
            "name": name,
            "id": f"{call.path.rpartition('/')[0]}/{name}",
            "properties": {
                "hyperVGeneration": "V2",
                "architecture": "x64",
                "imageDeprecationStatus": {"imageState": "Active"},
                "replicaType": "Managed",
                "osDiskImage": {
                    "operatingSystem": "Windows" if windows else "Linux",
                    "sizeInGb": 127 if windows else 30,
                },
                "dataDiskImages": [],
                "automaticOSUpgradeProperties": {"automaticOSUpgradeSupported": True},
                "features": [
                    {"name": "SecurityType", "value": "TrustedLaunchSupported"},
                    {"name": "IsAcceleratedNetworkSupported", "value": "True"},
                ],
            },
        }
    )


def _listed(call: ArmRequest, names: Iterable[str]) -> ArmResponse:
    """Return names as look-ups of images do: a bare list."""
    location = call.names["location"]
    return ArmResponse(
        body=[
            {"location": location, "name": name, "id": f"{call.path}/{name}"} for name in dict.fromkeys(names)
        ]
    )


_PUBLISHERS = "/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/publishers"
_OFFERS = f"{_PUBLISHERS}/{{publisher}}/artifacttypes/vmimage/offers"
_SKUS = f"{_OFFERS}/{{offer}}/skus"
_VERSIONS = f"{_SKUS}/{{sku}}/versions"

#: What az fetches without showing a token.
OPEN = (ArmRoute("GET", "/aliases.json", aliases),)

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _PUBLISHERS, publishers),
    ArmRoute("GET", _OFFERS, offers),
    ArmRoute("GET", _SKUS, skus),
    ArmRoute("GET", _VERSIONS, versions),
    ArmRoute("GET", f"{_VERSIONS}/{{version}}", version),
)
