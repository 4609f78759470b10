"""Extensions of machines, instances and scale sets (T-35); nothing runs, and protected settings are dropped.

Extensions of a machine or an instance are documents below it. Those of a scale set are part of its model, and
its instances have them, too.
"""

from collections.abc import Callable

from fairwarning.arm import resource_ids
from fairwarning.arm.compute import scalesets
from fairwarning.arm.compute.resource_type import Names, ResourceType
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, get_items, get_path, overlay
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import SCALE_SETS, VMS
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, Scope

_EXTENSIONS = "extensions"
_MODEL = ("properties", "virtualMachineProfile", "extensionProfile", _EXTENSIONS)
#: The types of extensions.
_OF_MACHINE, _OF_INSTANCE = f"{VMS}/{_EXTENSIONS}", f"{SCALE_SETS}/{VMS}/{_EXTENSIONS}"
_OF_SET = f"{SCALE_SETS}/{_EXTENSIONS}"


def with_extensions(state: ArmState, machine: Machine, document: Document) -> Document:
    """Return the document of a virtual machine with its extensions among its resources."""
    installed = _of_machine(state, machine, _OF_MACHINE)
    return {**document, "resources": [*installed]} if installed else document


def _of_machine(state: ArmState, machine: Machine, kind: str) -> list[Document]:
    owner, scope = resource_ids.machine_id(state, machine), state.scope_of(machine)
    inherited = _items(state, scope) if scope.facts.kind.scales else []
    own = (document for _, document in state.documents(f"{owner}/{_EXTENSIONS}/"))
    items = {_name(item): item for item in (*inherited, *own)}
    return [_rendered(item, owner, kind) for item in items.values()]


def _of_set(state: ArmState, names: Names) -> list[Document]:
    scope, *_ = scalesets.TYPE.require(state, names, _no_parent)
    owner = resource_ids.set_id(state, scope)
    return [_rendered(item, owner, _OF_SET) for item in _items(state, scope)]


def _items(state: ArmState, scope: Scope) -> list[Json]:
    """Return the extensions in the model of a set."""
    return get_items(state.document(resource_ids.set_id(state, scope)), *_MODEL)


def _name(extension: Json) -> str:
    """Return the name of an extension in lower case."""
    return str(get_path(extension, "name")).lower()


def _rendered(item: Json, owner: str, kind: str) -> Document:
    name = str(get_path(item, "name"))
    identifier, type_name = f"{owner}/{_EXTENSIONS}/{name}", f"Microsoft.Compute/{kind}"
    state: Document = {"provisioningState": "Succeeded"}
    return overlay(item, {"id": identifier, "name": name, "type": type_name, "properties": state})


def _no_parent(names: Names) -> AzureError:
    message = (
        "Can not perform requested operation on nested resource. "
        f"Parent resource '{names.get('instance', names['name'])}' not found."
    )
    return AzureError(404, "ParentResourceNotFound", message)


def _change(edit: Edit, request: ArmRequest, extension: Document, body: Document) -> None:
    edit.put({str(extension["id"]): overlay(overlay(extension, body), {"name": extension["name"]})})


def _delete(edit: Edit, request: ArmRequest, extension: Document) -> None:
    if edit.state.document(str(extension["id"])) is None:
        message = f"Extension {extension['name']} is part of the model of the scale set."
        raise AzureError(409, "OperationNotAllowed", message)
    edit.put({str(extension["id"]): None})


def _create_in_set(edit: Edit, request: ArmRequest, body: Document) -> None:
    _put_in_set(edit, request, overlay(body, {"name": request.names["extension"]}))


def _change_in_set(edit: Edit, request: ArmRequest, extension: Document, body: Document) -> None:
    own: Document = {"name": extension["name"], "properties": extension["properties"]}
    _put_in_set(edit, request, overlay(overlay(own, body), {"name": extension["name"]}))


def _delete_in_set(edit: Edit, request: ArmRequest, extension: Document) -> None:
    _put_in_set(edit, request, None)


def _put_in_set(edit: Edit, request: ArmRequest, extension: Document | None) -> None:
    """Put an extension into the model of a set in place of that of its name; None removes it."""
    scopes = scalesets.TYPE.require(edit.state, request.names, _no_parent)
    name = request.names["extension"].lower()
    others = [item for item in _items(edit.state, scopes[0]) if _name(item) != name]
    items: list[Json] = others if extension is None else [*others, extension]
    profile: Document = {"extensionProfile": {_EXTENSIONS: items}}
    scalesets.TYPE.change(edit, request, scopes, {"properties": {"virtualMachineProfile": profile}})


def _type(
    kind: str,
    read: Callable[[ArmState, Names], list[Document]],
    create: Callable[[Edit, ArmRequest, Document], None],
    change: Callable[[Edit, ArmRequest, Document, Document], None],
    delete: Callable[[Edit, ArmRequest, Document], None],
) -> ResourceType[Document]:
    """Return a type of extensions; ``read`` returns those of a resource."""

    def find(state: ArmState, names: Names) -> Document | None:
        wanted = names["extension"].lower()
        return next((item for item in read(state, names) if _name(item) == wanted), None)

    return ResourceType[Document](
        kind=kind,
        names=("name", "instance", "extension") if kind == _OF_INSTANCE else ("name", "extension"),
        find=find,
        each=lambda state, request: ((_name(item), item.copy) for item in read(state, request.names)),
        render=lambda state, extension: extension,
        create=create,
        change=change,
        delete=delete,
        long_running=True,
    )


def _machine_type(
    kind: str, find_machine: Callable[[ArmState, Names], Machine | None]
) -> ResourceType[Document]:
    """Return the type of the extensions of virtual machines, or of instances."""

    def require(state: ArmState, names: Names) -> Machine:
        state.require_group(names["group"])
        machine = find_machine(state, names)
        if machine is None:
            raise _no_parent(names)
        return machine

    def read(state: ArmState, names: Names) -> list[Document]:
        return _of_machine(state, require(state, names), kind)

    def create(edit: Edit, request: ArmRequest, body: Document) -> None:
        name, facts = request.names["extension"], edit.state.identify(require(edit.state, request.names))
        document = overlay(overlay({"location": facts.location}, body), {"name": name})
        edit.put({f"{facts.resource_id}/{_EXTENSIONS}/{name}": document})

    return _type(kind, read, create, _change, _delete)


MACHINE_TYPE = _machine_type(_OF_MACHINE, resource_ids.find_vm)
INSTANCE_TYPE = _machine_type(_OF_INSTANCE, resource_ids.find_instance)
SET_TYPE = _type(_OF_SET, _of_set, _create_in_set, _change_in_set, _delete_in_set)
ROUTES = (*MACHINE_TYPE.routes(), *INSTANCE_TYPE.routes(), *SET_TYPE.routes())
