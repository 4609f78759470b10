"""The network interfaces of a machine, as clients of the management API have set them up (I-19)."""

import hashlib
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from fairwarning.core.azure.identity import FindDocument, machine_documents
from fairwarning.core.azure.members import get_items, get_path
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, ScopeProperties, derive_id


class InterfaceFacts(NamedTuple):
    """What a machine reads about its primary network interface."""

    private_ip: str
    subnet: str
    subnet_prefix: int
    mac: str
    public_ip: str = ""


def primary_interface(machine: Machine, scope: ScopeProperties, find: FindDocument) -> InterfaceFacts | None:
    """Return the facts about the primary interface of a machine; None if no client has given it one."""
    for interface in _interfaces(machine, scope, find):
        for configuration in get_items(interface, "properties", "ipConfigurations"):
            address = get_path(configuration, "properties", "privateIPAddress")
            network = subnet_network(reference_id(configuration, "subnet"), 4, find)
            if isinstance(address, str) and network is not None:
                return InterfaceFacts(
                    private_ip=address,
                    subnet=str(network.network_address),
                    subnet_prefix=network.prefixlen,
                    mac=_mac_address(interface),
                    public_ip=_basic_address(configuration, find),
                )
    return None


def derived_interface(machine: Machine, number: int = 0) -> InterfaceFacts:
    """Return an interface whose addresses follow from the id of the machine, so that they never change."""
    digest = hashlib.sha256(machine.vm_id.encode() + b"+" * number).digest()
    subnet = f"10.{digest[0]}.{digest[1]}"
    return InterfaceFacts(
        private_ip=f"{subnet}.{4 + digest[2] % 250}",
        subnet=f"{subnet}.0",
        subnet_prefix=24,
        mac="000D3A" + digest[3:6].hex().upper(),
    )


def ip_configurations(machine: Machine, scope: ScopeProperties, find: FindDocument) -> Iterator[Json]:
    """Yield the IP configurations of a machine: of its interfaces, or of the model of its scale set."""
    _, model = machine_documents(machine, scope, find)
    profile = get_path(model, "properties", "virtualMachineProfile", "networkProfile")
    documents = _interfaces(machine, scope, find) or get_items(profile, "networkInterfaceConfigurations")
    for document in documents:
        yield from get_items(document, "properties", "ipConfigurations")


def subnet_network(subnet_id: str, version: int, find: FindDocument) -> IPv4Network | IPv6Network | None:
    """Return the addresses of a subnet, of IP version 4 or 6; None if the subnet is unknown."""
    network, _, name = subnet_id.lower().rpartition("/subnets/")
    for subnet in get_items(find(network), "properties", "subnets"):
        if str(get_path(subnet, "name")).lower() != name:
            continue
        prefixes = get_items(subnet, "properties", "addressPrefixes")
        for text in (get_path(subnet, "properties", "addressPrefix"), *prefixes):
            try:
                addresses = ip_network(str(text), strict=False)
            except ValueError:
                continue
            if addresses.version == version:
                return addresses
    return None


def derived_mac_address(interface_id: str) -> str:
    """Return the address of the hardware of an interface, which its id determines."""
    octets = bytes.fromhex(derive_id(interface_id.lower())[:6])
    return "-".join(("00", "0D", "3A", *(f"{octet:02X}" for octet in octets)))


def reference_id(document: Json, member: str) -> str:
    """Return the id of the resource that a member of the properties refers to, in lower case."""
    return str(get_path(document, "properties", member, "id") or "").lower()


def is_standard(document: Json) -> bool:
    """Whether a public address or a load balancer is of the Standard SKU."""
    return str(get_path(document, "sku", "name")).lower() == "standard"


def _interfaces(machine: Machine, scope: ScopeProperties, find: FindDocument) -> list[Json]:
    """Return the documents of the interfaces of a machine, the primary one first."""
    own, _ = machine_documents(machine, scope, find)
    references = get_items(own, "properties", "networkProfile", "networkInterfaces")
    references = sorted(references, key=lambda item: get_path(item, "properties", "primary") is not True)
    documents = (find(str(get_path(reference, "id")).lower()) for reference in references)
    return [document for document in documents if document is not None]


def _mac_address(interface: Json) -> str:
    given = get_path(interface, "properties", "macAddress")
    return str(given or derived_mac_address(str(get_path(interface, "id"))))


def _basic_address(configuration: Json, find: FindDocument) -> str:
    """Return the public address; one of the Standard SKU is part of the load balancer metadata (I-17)."""
    public = find(reference_id(configuration, "publicIPAddress"))
    return "" if is_standard(public) else str(get_path(public, "properties", "ipAddress") or "")
