"""Private addresses of network interfaces: the first free one of the subnet, as Azure assigns them.

A subnet that an interface refers to must exist, and exists until no interface refers to it any more.
"""

from collections import defaultdict
from collections.abc import Collection
from ipaddress import ip_address
from itertools import islice

from fairwarning.arm.documents import Document, deep_merge, get_fields, get_items, get_path
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import group_id
from fairwarning.core.azure.interfaces import subnet_network
from fairwarning.core.document.render import Json
from fairwarning.core.model import derive_id

#: Azure keeps the first four addresses of a subnet, and its last one.
_RESERVED = 4
#: How many addresses of a subnet are tried at most.
_MOST = 1 << 16
#: How many configurations Azure allows a network interface.
_MOST_CONFIGURATIONS = 256

#: Addresses by the ids of their subnets, in lower case.
_Addresses = defaultdict[str, set[str]]


def assign(state: ArmState, interface: Document, before: Document | None) -> Document:
    """Return a network interface with an address for every configuration; the addresses it had stay.

    Raises:
        AzureError: a subnet does not exist or has no free address, an address is taken, or there are too
            many configurations.
    """
    given = get_items(interface, "properties", "ipConfigurations")
    if len(given) > _MOST_CONFIGURATIONS:
        problem = f"a network interface has at most {_MOST_CONFIGURATIONS} configurations"
        raise invalid("properties.ipConfigurations", problem)
    taken_everywhere = _taken(state, str(interface["id"])) if given else _Addresses(set)
    configurations: list[Json] = []
    for configuration in given:
        taken = taken_everywhere[_subnet(configuration)]
        address = get_path(configuration, "properties", "privateIPAddress")
        if isinstance(address, str) and address in taken:
            message = f"Private address {address} of {interface['id']} is in use by another interface."
            raise AzureError(400, "PrivateIPAddressInUse", message)
        address = address or _choose(state, configuration, before, taken)
        taken.add(str(address))
        configurations.append(deep_merge(configuration, {"properties": {"privateIPAddress": address}}))
    return {
        **interface,
        "properties": {**get_fields(interface, "properties"), "ipConfigurations": configurations},
    }


def _choose(state: ArmState, configuration: Json, before: Document | None, taken: set[str]) -> str:
    name, properties = get_path(configuration, "name"), get_fields(configuration, "properties")
    version = 6 if get_path(properties, "privateIPAddressVersion") == "IPv6" else 4
    subnet = str(get_path(properties, "subnet", "id"))
    _check_exists(state, subnet, str(get_path(configuration, "id")))
    network = subnet_network(subnet, version, state.document)
    if network is None:
        octets = bytes.fromhex(derive_id("private", str(get_path(configuration, "id")).lower())[:6])
        return f"10.{octets[0]}.{octets[1]}.{4 + octets[2] % 250}"
    for old in get_items(before, "properties", "ipConfigurations"):
        address = str(get_path(old, "properties", "privateIPAddress"))
        if get_path(old, "name") == name and address not in taken and ip_address(address) in network:
            return address
    candidates = map(str, islice(network.hosts(), _RESERVED - 1, _MOST))
    free = next((address for address in candidates if address not in taken), None)
    if free is None:
        message = f"Subnet {get_path(properties, 'subnet', 'id')} with address prefix {network} is full."
        raise AzureError(400, "SubnetIsFull", message)
    return free


def _check_exists(state: ArmState, subnet: str, referrer: str) -> None:
    parent, separator, name = subnet.lower().rpartition("/subnets/")
    names = [
        str(get_path(item, "name")).lower()
        for item in get_items(state.document(parent), "properties", "subnets")
    ]
    if separator and name not in names:
        message = f"Resource {subnet} referenced by resource {referrer} was not found."
        raise AzureError(400, "InvalidResourceReference", message)


def check_unused(state: ArmState, subnets: Collection[str]) -> None:
    """Refuse to delete subnets that network interfaces refer to.

    Raises:
        AzureError: an interface has an address in one of the subnets.
    """
    taken = _taken(state, besides="") if subnets else {}
    for subnet in subnets:
        if subnet.lower() in taken:
            message = f"Subnet {subnet} is in use by a network interface and cannot be deleted."
            raise AzureError(400, "InUseSubnetCannotBeDeleted", message)


def _taken(state: ArmState, besides: str) -> _Addresses:
    """Return the addresses that other network interfaces have."""
    keys = (key for key in state.view.keys_under(group_id("").lower()) if "/networkinterfaces/" in key)
    taken = _Addresses(set)
    for other in [state.document(key) for key in list(keys) if key != besides.lower()]:
        for configuration in get_items(other, "properties", "ipConfigurations"):
            address = get_path(configuration, "properties", "privateIPAddress")
            taken[_subnet(configuration)].add(str(address))
    return taken


def _subnet(configuration: Json) -> str:
    return str(get_path(configuration, "properties", "subnet", "id")).lower()
