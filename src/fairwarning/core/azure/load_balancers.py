"""``/metadata/loadbalancer``: how traffic reaches and leaves a machine (I-17).

The facts are in the documents that clients of the management API have stored. The interfaces of a machine, or
the model of its scale set, name public addresses, pools and NAT rules; the load balancer of a pool has the
rules. Azure shows public addresses and load balancers of the Standard SKU here, and no Basic ones.
"""

from collections.abc import Iterator

from fairwarning.core.azure.identity import FindDocument
from fairwarning.core.azure.interfaces import ip_configurations, is_standard, reference_id
from fairwarning.core.azure.members import get_items, get_path
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, ScopeProperties


def load_balancer_document(
    machine: Machine, scope: ScopeProperties, find: FindDocument, private_ip: str
) -> Json:
    """Return the load balancer metadata of a machine; None if there is nothing to show."""
    configurations = list(ip_configurations(machine, scope, find))
    addresses = [address for item in configurations for address in _public_address(item, find)]
    pools = {_id(pool) for item in configurations for pool in _references(item, "BackendAddressPools")}
    nat_rules = {_id(rule) for item in configurations for rule in _references(item, "InboundNatRules")}
    balancers = [
        balancer
        for balancer in map(find, sorted({_balancer_id(part) for part in pools | nat_rules}))
        if is_standard(balancer)
    ]
    private: dict[str, Json] = {"privateIpAddress": private_ip}
    document: dict[str, Json] = {
        "publicIpAddresses": [{"frontendIpAddress": address, **private} for address in addresses],
        "inboundRules": [
            {**rule, **private}
            for balancer in balancers
            for rule in _inbound_rules(balancer, pools, nat_rules, find)
        ],
        "outboundRules": [
            {"frontendIpAddress": address, **private}
            for balancer in balancers
            for address in _outbound_addresses(balancer, pools, find)
        ],
    }
    return {"loadbalancer": document} if any(document.values()) else None


def _references(configuration: Json, name: str) -> list[Json]:
    return get_items(configuration, "properties", f"loadBalancer{name}")


def _public_address(configuration: Json, find: FindDocument) -> Iterator[str]:
    document = find(reference_id(configuration, "publicIPAddress"))
    address = get_path(document, "properties", "ipAddress")
    if is_standard(document) and isinstance(address, str):
        yield address


def _inbound_rules(
    balancer: Json, pools: set[str], nat_rules: set[str], find: FindDocument
) -> Iterator[dict[str, Json]]:
    balanced = get_items(balancer, "properties", "loadBalancingRules")
    rules = [rule for rule in balanced if reference_id(rule, "backendAddressPool") in pools]
    rules += [rule for rule in get_items(balancer, "properties", "inboundNatRules") if _id(rule) in nat_rules]
    for rule in rules:
        frontend = reference_id(rule, "frontendIPConfiguration")
        yield {
            "frontendIpAddress": _frontend_address(balancer, frontend, find),
            "protocol": str(get_path(rule, "properties", "protocol")).lower(),
            "frontendPort": get_path(rule, "properties", "frontendPort"),
            "backendPort": get_path(rule, "properties", "backendPort"),
        }


def _outbound_addresses(balancer: Json, pools: set[str], find: FindDocument) -> Iterator[str]:
    for rule in get_items(balancer, "properties", "outboundRules"):
        if reference_id(rule, "backendAddressPool") in pools:
            for frontend in get_items(rule, "properties", "frontendIPConfigurations"):
                yield _frontend_address(balancer, _id(frontend), find)


def _frontend_address(balancer: Json, frontend: str, find: FindDocument) -> str:
    for item in get_items(balancer, "properties", "frontendIPConfigurations"):
        if _id(item) == frontend:
            public = find(reference_id(item, "publicIPAddress"))
            address = get_path(public, "properties", "ipAddress")
            return str(address or get_path(item, "properties", "privateIPAddress") or "")
    return ""


def _balancer_id(part: str) -> str:
    """Return the id of the load balancer that a pool or a rule is part of."""
    return part.rsplit("/", 2)[0]


def _id(reference: Json) -> str:
    return str(get_path(reference, "id") or "").lower()
