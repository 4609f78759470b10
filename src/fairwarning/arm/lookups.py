"""What clients look up before they make anything: places, providers and sizes, all of them fixed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fairwarning.arm.call import ArmRequest, ArmResponse
from fairwarning.arm.context import SUBSCRIPTION, TENANT, ArmContext
from fairwarning.arm.errors import AzureError
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.document.render import Json

#: Regions: name, how it is shown, geography, latitude, longitude, partner.
_LOCATIONS = (
    ("westeurope", "West Europe", "Europe", "52.3667", "4.9", "northeurope"),
    ("northeurope", "North Europe", "Europe", "53.3478", "-6.2597", "westeurope"),
    ("uksouth", "UK South", "UK", "50.941", "-0.799", "ukwest"),
    ("swedencentral", "Sweden Central", "Sweden", "60.67488", "17.14127", "swedensouth"),
    ("germanywestcentral", "Germany West Central", "Germany", "50.110924", "8.682127", "germanynorth"),
    ("eastus", "East US", "US", "37.3719", "-79.8164", "westus"),
    ("eastus2", "East US 2", "US", "36.6681", "-78.3889", "centralus"),
    ("centralus", "Central US", "US", "41.5908", "-93.6208", "eastus2"),
    ("westus", "West US", "US", "37.783", "-122.417", "eastus"),
    ("westus2", "West US 2", "US", "47.233", "-119.852", "westcentralus"),
    ("southeastasia", "Southeast Asia", "Asia Pacific", "1.283", "103.833", "eastasia"),
    ("australiaeast", "Australia East", "Asia Pacific", "-33.86", "151.2094", "australiasoutheast"),
)
LOCATIONS = tuple(name for name, *_ in _LOCATIONS)

#: Who answers for which kinds of resources, and the versions that generic clients may pick from, best first.
PROVIDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Microsoft.Compute": (
        (
            "virtualMachines",
            "virtualMachineScaleSets",
            "virtualMachineScaleSets/virtualMachines",
            "availabilitySets",
            "cloudServices",
            "locations",
        ),
        ("2024-07-01", "2023-09-01", "2022-11-01", "2021-03-01", "2019-03-01"),
    ),
    "Microsoft.Network": (
        (
            "virtualNetworks",
            "networkInterfaces",
            "publicIPAddresses",
            "networkSecurityGroups",
            "loadBalancers",
        ),
        ("2024-05-01", "2022-01-01"),
    ),
    "Microsoft.Resources": (("resourceGroups", "deployments"), ("2024-03-01", "2021-04-01")),
    "Microsoft.Maintenance": (("scheduledevents", "updates"), ("2023-10-01-preview", "2023-04-01")),
}


@dataclass(frozen=True, slots=True)
class MachineSize:
    """A size of machines."""

    name: str
    cores: int
    memory: float
    disks: int


SIZES = (
    MachineSize("Standard_B1s", 1, 1, 2),
    MachineSize("Standard_B2s", 2, 4, 4),
    MachineSize("Standard_B2ms", 2, 8, 4),
    MachineSize("Standard_DS1_v2", 1, 3.5, 4),
    MachineSize("Standard_DS2_v2", 2, 7, 8),
    MachineSize("Standard_DS3_v2", 4, 14, 16),
    MachineSize("Standard_D2s_v3", 2, 8, 4),
    MachineSize("Standard_D4s_v3", 4, 16, 8),
    MachineSize("Standard_D2s_v5", 2, 8, 4),
    MachineSize("Standard_D4s_v5", 4, 16, 8),
    MachineSize("Standard_D8s_v5", 8, 32, 16),
    MachineSize("Standard_E2s_v5", 2, 16, 4),
    MachineSize("Standard_F2s_v2", 2, 4, 4),
)

#: What every size can do.
_ABLE: Mapping[str, str] = {
    "PremiumIO": "True",
    "HyperVGenerations": "V1,V2",
    "AcceleratedNetworkingEnabled": "True",
    "CpuArchitectureType": "x64",
    "MaxNetworkInterfaces": "2",
    "LowPriorityCapable": "True",
    "EncryptionAtHostSupported": "True",
}

_IN_LOCATION = re.compile(r"location\s+eq\s+'([^']*)'", re.IGNORECASE)


async def tenants(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the one tenant."""
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


async def subscriptions(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the one subscription, as a list."""
    return ArmResponse(body={"value": [_subscription()], "count": {"type": "Total", "value": 1}})


async def subscription(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the one subscription."""
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


async def locations(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the regions."""
    return ArmResponse(body={"value": [_location(*row) for row in _LOCATIONS]})


def _location(name: str, shown: str, geography: str, latitude: str, longitude: str, partner: str) -> Json:
    root = f"/subscriptions/{SUBSCRIPTION}/locations"
    return {
        "id": f"{root}/{name}",
        "name": name,
        "type": "Region",
        "displayName": shown,
        "regionalDisplayName": f"({geography}) {shown}",
        "metadata": {
            "regionType": "Physical",
            "regionCategory": "Recommended",
            "geography": geography,
            "geographyGroup": geography,
            "latitude": latitude,
            "longitude": longitude,
            "physicalLocation": shown,
            "pairedRegion": [{"name": partner, "id": f"{root}/{partner}"}],
        },
        "availabilityZoneMappings": [
            {"logicalZone": zone, "physicalZone": f"{name}-az{zone}"} for zone in ("1", "2", "3")
        ],
    }


async def providers(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return who answers for which kinds of resources."""
    return ArmResponse(body={"value": [_provider(name) for name in PROVIDERS]})


async def provider(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return one of those who answer for kinds of resources."""
    asked = call.names["namespace"]
    for name in PROVIDERS:
        if name.lower() == asked.lower():
            return ArmResponse(body=_provider(name))
    message = f"The resource namespace '{asked}' is invalid; known are {', '.join(PROVIDERS)}."
    raise AzureError(404, "InvalidResourceNamespace", message)


def _provider(name: str) -> Json:
    kinds, versions = PROVIDERS[name]
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/providers/{name}",
        "namespace": name,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationRequired",
        "resourceTypes": [
            {
                "resourceType": kind,
                "locations": [shown for _, shown, *_ in _LOCATIONS],
                "apiVersions": [*versions],
                "defaultApiVersion": versions[0],
                "capabilities": "SupportsTags, SupportsLocation",
            }
            for kind in kinds
        ],
    }


async def compute_skus(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the sizes with what they can do, in every region or the one asked for."""
    asked = _IN_LOCATION.search(call.query.get("$filter", ""))
    wanted = LOCATIONS if asked is None else tuple(one for one in LOCATIONS if one == asked[1].lower())
    return ArmResponse(body={"value": [_sku(size, location) for location in wanted for size in SIZES]})


def _sku(size: MachineSize, location: str) -> Json:
    able = {"vCPUs": f"{size.cores}", "MemoryGB": f"{size.memory:g}", "MaxDataDiskCount": f"{size.disks}"}
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.partition("_")[2],
        "family": f"standard{size.name[9]}Family",
        "locations": [location],
        "locationInfo": [{"location": location, "zones": ["1", "2", "3"], "zoneDetails": []}],
        "capabilities": [{"name": name, "value": value} for name, value in {**able, **_ABLE}.items()],
        "restrictions": [],
    }


async def sizes(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return the sizes of machines."""
    return ArmResponse(
        body={
            "value": [
                {
                    "name": size.name,
                    "numberOfCores": size.cores,
                    "memoryInMB": int(size.memory * 1024),
                    "maxDataDiskCount": size.disks,
                    "osDiskSizeInMB": 1047552,
                    "resourceDiskSizeInMB": 16384,
                }
                for size in SIZES
            ]
        }
    )


async def usages(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return how much there is of everything: more than anybody will use."""
    names = {"cores": "Total Regional vCPUs", "virtualMachines": "Virtual Machines"}
    return ArmResponse(
        body={
            "value": [
                {
                    "name": {"value": name, "localizedValue": shown},
                    "unit": "Count",
                    "currentValue": 0,
                    "limit": 100_000,
                }
                for name, shown in names.items()
            ]
        }
    )


_ONE = "/subscriptions/{subscription}"
_COMPUTE = f"{_ONE}/providers/Microsoft.Compute"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", "/tenants", tenants),
    ArmRoute("GET", "/subscriptions", subscriptions),
    ArmRoute("GET", _ONE, subscription),
    ArmRoute("GET", f"{_ONE}/locations", locations),
    ArmRoute("GET", "/providers", providers),
    ArmRoute("GET", f"{_ONE}/providers", providers),
    ArmRoute("GET", f"{_ONE}/providers/{{namespace}}", provider),
    ArmRoute("POST", f"{_ONE}/providers/{{namespace}}/register", provider),
    ArmRoute("GET", f"{_COMPUTE}/skus", compute_skus),
    ArmRoute("GET", f"{_COMPUTE}/locations/{{location}}/vmSizes", sizes),
    ArmRoute("GET", f"{_COMPUTE}/locations/{{location}}/usages", usages),
)
