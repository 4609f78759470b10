"""The answers that clients look up before they create anything; none of them depends on the fleet."""

import re
from collections.abc import Iterable

from fairwarning.arm.catalog import (
    IMAGES,
    PROVIDERS,
    REGIONS,
    SIZES,
    ImageAlias,
    MachineSize,
    Region,
    ResourceProvider,
)
from fairwarning.arm.context import SUBSCRIPTION, TENANT, ArmContext
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.document.render import Json

#: The version of every image.
IMAGE_VERSION = "1.0.0"

_ZONES = ("1", "2", "3")
_LOCATION_FILTER = re.compile(r"location\s+eq\s+'([^']*)'", re.IGNORECASE)


async def list_tenants(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the only tenant, as a list."""
    tenant: Json = {
        "id": f"/tenants/{TENANT}",
        "tenantId": TENANT,
        "displayName": "fairwarning",
        "countryCode": "NL",
        "domains": ["fairwarning.test"],
        "defaultDomain": "fairwarning.test",
        "tenantCategory": "Home",
        "tenantType": "AAD",
    }
    return ArmResponse(body={"value": [tenant]})


async def list_subscriptions(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the only subscription, as a list."""
    return ArmResponse(body={"value": [_subscription()], "count": {"type": "Total", "value": 1}})


async def get_subscription(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the only subscription."""
    return ArmResponse(body=_subscription())


def _subscription() -> Json:
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}",
        "subscriptionId": SUBSCRIPTION,
        "tenantId": TENANT,
        "displayName": "fairwarning",
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
        "subscriptionPolicies": {
            "locationPlacementId": "Public_2014-09-01",
            "quotaId": "PayAsYouGo_2014-09-01",
            "spendingLimit": "Off",
        },
    }


async def list_locations(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the regions."""
    return ArmResponse(body={"value": [_location(region) for region in REGIONS]})


def _location(region: Region) -> Json:
    root = f"/subscriptions/{SUBSCRIPTION}/locations"
    paired = region.paired_region
    return {
        "id": f"{root}/{region.name}",
        "name": region.name,
        "type": "Region",
        "displayName": region.display_name,
        "regionalDisplayName": f"({region.geography}) {region.display_name}",
        "metadata": {
            "regionType": "Physical",
            "regionCategory": "Recommended",
            "geography": region.geography,
            "geographyGroup": region.geography,
            "latitude": region.latitude,
            "longitude": region.longitude,
            "physicalLocation": region.display_name,
            "pairedRegion": [{"name": paired, "id": f"{root}/{paired}"}],
        },
        "availabilityZoneMappings": [
            {"logicalZone": zone, "physicalZone": f"{region.name}-az{zone}"} for zone in _ZONES
        ],
    }


async def list_providers(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the resource providers."""
    return ArmResponse(body={"value": [_provider(provider) for provider in PROVIDERS]})


async def get_provider(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a resource provider; all of them are registered from the start."""
    namespace = request.names["namespace"]
    for provider in PROVIDERS:
        if provider.namespace.lower() == namespace.lower():
            return ArmResponse(body=_provider(provider))
    known = ", ".join(provider.namespace for provider in PROVIDERS)
    message = f"The resource namespace '{namespace}' is invalid; known are {known}."
    raise AzureError(404, "InvalidResourceNamespace", message)


def _provider(provider: ResourceProvider) -> Json:
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/providers/{provider.namespace}",
        "namespace": provider.namespace,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationRequired",
        "resourceTypes": [
            {
                "resourceType": resource_type,
                "locations": [region.display_name for region in REGIONS],
                "apiVersions": [*provider.api_versions],
                "defaultApiVersion": provider.api_versions[0],
                "capabilities": "SupportsTags, SupportsLocation",
            }
            for resource_type in provider.resource_types
        ],
    }


async def list_compute_skus(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the sizes and their capabilities, for all regions or for the region of the filter."""
    chosen = _LOCATION_FILTER.search(request.query.get("$filter", ""))
    regions = [region.name for region in REGIONS if chosen is None or region.name == chosen[1].lower()]
    return ArmResponse(body={"value": [_sku(size, region) for region in regions for size in SIZES.sizes]})


def _sku(size: MachineSize, region: str) -> Json:
    capabilities = {
        "vCPUs": f"{size.cores}",
        "MemoryGB": f"{size.memory_gb:g}",
        "MaxDataDiskCount": f"{size.data_disks}",
        **SIZES.capabilities,
    }
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.partition("_")[2],
        "family": f"standard{size.name[9]}Family",
        "locations": [region],
        "locationInfo": [{"location": region, "zones": [*_ZONES], "zoneDetails": []}],
        "capabilities": [{"name": name, "value": value} for name, value in capabilities.items()],
        "restrictions": [],
    }


async def list_sizes(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the sizes of machines."""
    return ArmResponse(
        body={
            "value": [
                {
                    "name": size.name,
                    "numberOfCores": size.cores,
                    "memoryInMB": int(size.memory_gb * 1024),
                    "maxDataDiskCount": size.data_disks,
                    "osDiskSizeInMB": 1047552,
                    "resourceDiskSizeInMB": 16384,
                }
                for size in SIZES.sizes
            ]
        }
    )


async def list_usages(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the quotas: none is used, and every limit is far above what a fleet can hold."""
    names = {"cores": "Total Regional vCPUs", "virtualMachines": "Virtual Machines"}
    return ArmResponse(
        body={
            "value": [
                {
                    "name": {"value": name, "localizedValue": display_name},
                    "unit": "Count",
                    "currentValue": 0,
                    "limit": 100_000,
                }
                for name, display_name in names.items()
            ]
        }
    )


async def list_aliases(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the document in which az looks up short names of images."""
    aliases: dict[str, dict[str, Json]] = {}
    for image in IMAGES:
        aliases.setdefault(image.system, {})[image.alias] = _alias(image)
    value: Json = {**aliases}
    return ArmResponse(body={"outputs": {"aliases": {"type": "object", "value": value}}})


def _alias(image: ImageAlias) -> Json:
    return {
        "publisher": image.publisher,
        "offer": image.offer,
        "sku": image.sku,
        "version": "latest",
        "architecture": "x64",
    }


async def list_publishers(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the publishers of images."""
    return _image_list(request, (image.publisher for image in IMAGES))


async def list_offers(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the offers of a publisher."""
    publisher = request.names["publisher"].lower()
    return _image_list(request, (image.offer for image in IMAGES if image.publisher.lower() == publisher))


async def list_image_skus(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the SKUs of an offer."""
    offer = request.names["publisher"].lower(), request.names["offer"].lower()
    images = (image for image in IMAGES if (image.publisher.lower(), image.offer.lower()) == offer)
    return _image_list(request, (image.sku for image in images))


async def list_image_versions(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the only version, for images in the catalog and for all others."""
    return _image_list(request, (IMAGE_VERSION,))


async def get_image_version(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the properties of an image; the publisher decides between Windows and Linux."""
    version = request.names["version"]
    name = IMAGE_VERSION if version.lower() == "latest" else version
    is_windows = request.names["publisher"].lower().startswith("microsoftwindows")
    return ArmResponse(
        body={
            "location": request.names["location"],
            "name": name,
            "id": f"{request.path.rpartition('/')[0]}/{name}",
            "properties": {
                "hyperVGeneration": "V2",
                "architecture": "x64",
                "imageDeprecationStatus": {"imageState": "Active"},
                "replicaType": "Managed",
                "osDiskImage": {
                    "operatingSystem": "Windows" if is_windows else "Linux",
                    "sizeInGb": 127 if is_windows else 30,
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


def _image_list(request: ArmRequest, names: Iterable[str]) -> ArmResponse:
    """Return names without duplicates, as a bare list: image lookups have no ``value`` around it."""
    location = request.names["location"]
    return ArmResponse(
        body=[
            {"location": location, "name": name, "id": f"{request.path}/{name}"}
            for name in dict.fromkeys(names)
        ]
    )


_ONE = "/subscriptions/{subscription}"
_COMPUTE = f"{_ONE}/providers/Microsoft.Compute"
_PUBLISHERS = f"{_COMPUTE}/locations/{{location}}/publishers"
_OFFERS = f"{_PUBLISHERS}/{{publisher}}/artifacttypes/vmimage/offers"
_SKUS = f"{_OFFERS}/{{offer}}/skus"
_VERSIONS = f"{_SKUS}/{{sku}}/versions"

#: What az fetches without a token.
PUBLIC_ROUTES = (ArmRoute("GET", "/aliases.json", list_aliases),)

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", "/tenants", list_tenants),
    ArmRoute("GET", "/subscriptions", list_subscriptions),
    ArmRoute("GET", _ONE, get_subscription),
    ArmRoute("GET", f"{_ONE}/locations", list_locations),
    ArmRoute("GET", "/providers", list_providers),
    ArmRoute("GET", f"{_ONE}/providers", list_providers),
    ArmRoute("GET", f"{_ONE}/providers/{{namespace}}", get_provider),
    ArmRoute("POST", f"{_ONE}/providers/{{namespace}}/register", get_provider),
    ArmRoute("GET", f"{_COMPUTE}/skus", list_compute_skus),
    ArmRoute("GET", f"{_COMPUTE}/locations/{{location}}/vmSizes", list_sizes),
    ArmRoute("GET", f"{_COMPUTE}/locations/{{location}}/usages", list_usages),
    ArmRoute("GET", _PUBLISHERS, list_publishers),
    ArmRoute("GET", _OFFERS, list_offers),
    ArmRoute("GET", _SKUS, list_image_skus),
    ArmRoute("GET", _VERSIONS, list_image_versions),
    ArmRoute("GET", f"{_VERSIONS}/{{version}}", get_image_version),
)
