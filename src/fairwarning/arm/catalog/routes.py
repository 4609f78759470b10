"""The answers that clients look up before they create anything; none of them depends on the fleet."""

import re
from collections.abc import Sequence

from fairwarning.arm import catalog
from fairwarning.arm.context import ArmContext
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse, Handler
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.azure.images import Image
from fairwarning.core.azure.operating_system import image_os_type
from fairwarning.core.document.render import Json

_LOCATION_FILTER = re.compile(r"location\s+eq\s+'([^']*)'", re.IGNORECASE)


def answer(body: Json) -> Handler:
    """Return the handler of requests that always have the same answer."""

    async def respond(context: ArmContext, request: ArmRequest) -> ArmResponse:
        return ArmResponse(body=body)

    return respond


async def get_provider(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a resource provider; all of them are registered from the start."""
    namespace = request.names["namespace"]
    for provider in catalog.PROVIDERS:
        if str(provider["namespace"]).lower() == namespace.lower():
            return ArmResponse(body=provider)
    known = ", ".join(str(provider["namespace"]) for provider in catalog.PROVIDERS)
    message = f"The resource namespace '{namespace}' is invalid; known are {known}."
    raise AzureError(404, "InvalidResourceNamespace", message)


async def list_skus(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the sizes and their capabilities, for all regions or for the region of the filter."""
    chosen = _LOCATION_FILTER.search(request.query.get("$filter", ""))
    regions = [str(region["name"]) for region in catalog.REGIONS]
    skus: list[Json] = [
        {
            **sku,
            "locations": [region],
            "locationInfo": [{"location": region, "zones": ["1", "2", "3"], "zoneDetails": []}],
        }
        for region in regions
        if chosen is None or region == chosen[1].lower()
        for sku in catalog.SKUS
    ]
    return ArmResponse(body={"value": skus})


def _aliases() -> Json:
    """Return the document in which az looks up short names of images."""
    members = ("publisher", "offer", "sku", "version", "architecture")
    aliases: dict[str, dict[str, Json]] = {}
    for image in catalog.IMAGES:
        described: Json = {member: image[member] for member in members}
        aliases.setdefault(str(image["system"]), {})[str(image["alias"])] = described
    return {"outputs": {"aliases": {"type": "object", "value": {**aliases}}}}


def _images(*path: str) -> Handler:
    """Return what lists the next part of the names of images, given the parts in the path."""

    async def respond(context: ArmContext, request: ArmRequest) -> ArmResponse:
        *parents, member = path
        names = [
            str(image[member])
            for image in catalog.IMAGES
            if all(str(image[parent]).lower() == request.names[parent].lower() for parent in parents)
        ]
        return _image_list(request, names)

    return respond


async def list_image_versions(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the only version, for images in the catalog and for all others."""
    return _image_list(request, (_newest_version(request),))


async def get_image_version(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the properties of an image; the publisher decides between Windows and Linux."""
    version = request.names["version"]
    name = _newest_version(request) if version.lower() == "latest" else version
    system = image_os_type(request.names["publisher"], request.names["offer"])
    gigabytes = 127 if system == "Windows" else 30
    disk: Json = {"operatingSystem": system, "sizeInBytes": gigabytes * 1024**3}
    return ArmResponse(
        body={
            "location": request.names["location"],
            "name": name,
            "id": f"{request.path.rpartition('/')[0]}/{name}",
            "properties": {**catalog.IMAGE_PROPERTIES, "osDiskImage": disk},
        }
    )


def _newest_version(request: ArmRequest) -> str:
    names = request.names
    return Image(names["publisher"], names["offer"], names["sku"], "latest").exact_version


def _image_list(request: ArmRequest, names: Sequence[str]) -> ArmResponse:
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

_SUBSCRIPTIONS: Json = {"value": [*catalog.SUBSCRIPTIONS], "count": {"type": "Total", "value": 1}}

#: What az fetches without a token.
PUBLIC_ROUTES = (ArmRoute("GET", "/aliases.json", answer(_aliases())),)

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", "/tenants", answer({"value": [*catalog.TENANTS]})),
    ArmRoute("GET", "/subscriptions", answer(_SUBSCRIPTIONS)),
    ArmRoute("GET", _ONE, answer(catalog.SUBSCRIPTIONS[0])),
    ArmRoute("GET", f"{_ONE}/locations", answer({"value": [*catalog.REGIONS]})),
    ArmRoute("GET", "/providers", answer({"value": [*catalog.PROVIDERS]})),
    ArmRoute("GET", f"{_ONE}/providers", answer({"value": [*catalog.PROVIDERS]})),
    ArmRoute("GET", f"{_ONE}/providers/{{namespace}}", get_provider),
    ArmRoute("POST", f"{_ONE}/providers/{{namespace}}/register", get_provider),
    ArmRoute("GET", f"{_COMPUTE}/skus", list_skus),
    ArmRoute("GET", f"{_COMPUTE}/locations/{{location}}/vmSizes", answer({"value": [*catalog.SIZES]})),
    ArmRoute("GET", f"{_COMPUTE}/locations/{{location}}/usages", answer({"value": [*catalog.USAGES]})),
    ArmRoute("GET", _PUBLISHERS, _images("publisher")),
    ArmRoute("GET", _OFFERS, _images("publisher", "offer")),
    ArmRoute("GET", _SKUS, _images("publisher", "offer", "sku")),
    ArmRoute("GET", _VERSIONS, list_image_versions),
    ArmRoute("GET", f"{_VERSIONS}/{{version}}", get_image_version),
)
