"""Network interfaces of instances (T-34): they follow from the model of the set, and nothing is stored."""

from collections.abc import Iterable, Iterator
from functools import partial

from fairwarning.arm import catalog, resource_ids
from fairwarning.arm.compute import instances, scalesets
from fairwarning.arm.compute.resource_type import Listed, Names, ResourceType, Scopes
from fairwarning.arm.context import ArmContext
from fairwarning.arm.documents import Document, fill, get_fields, get_items, get_path
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import GROUP_PATH
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import SCALE_SETS, VMS
from fairwarning.core.azure.interfaces import derived_interface
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, ScopeKind, derive_id

_INTERFACES = "networkInterfaces"


async def list_of_set(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the network interfaces of all instances of a scale set."""
    state = context.state()
    scopes = _require_set(state, request.names)
    machines = (machine for scope in scopes for machine in scope.machines.values())
    return resource_ids.paginate(request, _interfaces(state, scopes, machines), lambda find: find())


def _each(state: ArmState, request: ArmRequest) -> Iterator[Listed[Document]]:
    scopes = _require_set(state, request.names)
    machine = resource_ids.instance_in(scopes, request.names["instance"])
    if machine is None:
        raise _missing(instances.TYPE.path, request.names)
    return _interfaces(state, scopes, [machine])


def _find(state: ArmState, names: Names) -> Document | None:
    scopes = _require_set(state, names)
    machine = resource_ids.instance_in(scopes, names["instance"])
    for _, find in _interfaces(state, scopes, [] if machine is None else [machine]):
        interface = find()
        if str(interface["name"]).lower() == names["interface"].lower():
            return interface
    raise _missing(TYPE.path, names)


def _interfaces(state: ArmState, scopes: Scopes, machines: Iterable[Machine]) -> Iterator[Listed[Document]]:
    """Yield the interfaces of instances of a set; those of a flexible set are resources of their own."""
    if scopes[0].facts.kind is ScopeKind.FLEXIBLE_SET:
        return
    profile = get_path(scalesets.TYPE.render(state, scopes), "properties", "virtualMachineProfile")
    models = get_items(profile, "networkProfile", "networkInterfaceConfigurations")
    for machine in machines:
        owner = resource_ids.machine_id(state, machine)
        for number, model in enumerate(models):
            identifier = f"{owner}/{_INTERFACES}/{get_path(model, 'name')}"
            yield identifier, partial(_interface, identifier, owner, machine, number, model)


def _interface(identifier: str, owner: str, machine: Machine, number: int, model: Json) -> Document:
    mac = derived_interface(machine, number).mac
    properties: Document = {
        "provisioningState": "Succeeded",
        "resourceGuid": derive_id("interface", identifier.lower()).lower(),
        "macAddress": "-".join(mac[index : index + 2] for index in range(0, len(mac), 2)),
        "primary": number == 0,
        "hostedWorkloads": [],
        **get_fields(model, "properties"),
        "virtualMachine": {"id": owner},
        "ipConfigurations": [
            _ip_configuration(identifier, machine, 10 * number + index, item)
            for index, item in enumerate(get_items(model, "properties", "ipConfigurations"))
        ],
    }
    return {"name": str(get_path(model, "name")), "id": identifier, "properties": properties}


def _ip_configuration(interface: str, machine: Machine, number: int, model: Json) -> Json:
    name = get_path(model, "name")
    document: Document = {
        "name": name,
        "id": f"{interface}/ipConfigurations/{name}",
        "properties": {
            "primary": number % 10 == 0,
            "provisioningState": "Succeeded",
            "privateIPAddress": derived_interface(machine, number).private_ip,
            **get_fields(model, "properties"),
        },
    }
    return fill(document, catalog.DEFAULTS["Microsoft.Network/networkInterfaces/ipConfigurations"])


def _require_set(state: ArmState, names: Names) -> Scopes:
    return scalesets.TYPE.require(state, names, partial(_missing, scalesets.TYPE.path))


def _missing(path: str, names: Names) -> AzureError:
    # Microsoft.Network answers these requests, with a code of its own.
    return AzureError(404, "NotFound", f"Resource Microsoft.Compute/{path.format(**names)} not found.")


TYPE = ResourceType[Document](
    kind=f"{SCALE_SETS}/{VMS}/{_INTERFACES}",
    names=("name", "instance", "interface"),
    find=_find,
    each=_each,
    render=lambda state, interface: interface,
    methods=("GET",),
)
ROUTES = (
    *TYPE.routes(),
    ArmRoute("GET", f"{GROUP_PATH}/{scalesets.TYPE.path}/{_INTERFACES}", list_of_set),
)
