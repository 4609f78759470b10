"""Extensions of machines, instances and scale sets (T-35); nothing runs, and protected settings are dropped.

Extensions of a machine or an instance are documents below it. Those of a scale set are part of its model, and
its instances have them, too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from fairwarning.arm import resource_ids
from fairwarning.arm.compute import scalesets
from fairwarning.arm.compute.resource_type import Names, ResourceType, Scopes
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, get_items, get_path, overlay
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import SCALE_SETS, VMS
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine

_EXTENSIONS = "extensions"
_MODEL = ("properties", "virtualMachineProfile", "extensionProfile", _EXTENSIONS)

Found = tuple[str, Callable[[], Document]]


@dataclass(frozen=True, slots=True)
class _MachineExtensions:
    """The extensions of machines of one type of resource."""

    kind: str
    path: str
    find_machine: Callable[[ArmState, Names], Machine | None]

    def require_machine(self, state: ArmState, names: Names) -> Machine:
        state.require_group(names["group"])
        machine = self.find_machine(state, names)
        if machine is None:
            raise _no_parent(names)
        return machine

    def find(self, state: ArmState, names: Names) -> Document | None:
        machine, wanted = self.require_machine(state, names), names["extension"].lower()
        own = state.document(self._id(state, machine, wanted))
        items = [own] if own is not None else _items_of_set(state, machine)
        item = next((item for item in items if str(get_path(item, "name")).lower() == wanted), None)
        return None if item is None else self._document(state, machine, item)

    def each(self, state: ArmState, request: ArmRequest) -> Iterator[Found]:
        return self.each_of(state, self.require_machine(state, request.names))

    def each_of(self, state: ArmState, machine: Machine) -> Iterator[Found]:
        own = [document for _, document in state.documents(self._id(state, machine, ""))]
        items = {str(get_path(item, "name")).lower(): item for item in (*_items_of_set(state, machine), *own)}
        return ((name, partial(self._document, state, machine, item)) for name, item in items.items())

    def create(self, edit: Edit, request: ArmRequest, body: Document) -> None:
        machine, name = self.require_machine(edit.state, request.names), request.names["extension"]
        facts = edit.state.identify(machine)
        document = overlay(overlay({"location": facts.location}, body), {"name": name})
        edit.put({self._id(edit.state, machine, name): document})

    def change(self, edit: Edit, request: ArmRequest, extension: Document, body: Document) -> None:
        edit.put({str(extension["id"]): overlay(overlay(extension, body), {"name": extension["name"]})})

    def delete(self, edit: Edit, request: ArmRequest, extension: Document) -> None:
        if edit.state.document(str(extension["id"])) is None:
            message = f"Extension {extension['name']} is part of the model of the scale set."
            raise AzureError(409, "OperationNotAllowed", message)
        edit.put({str(extension["id"]): None})

    def type(self) -> ResourceType[Document]:
        return ResourceType[Document](
            kind=self.kind,
            path=f"{self.path}/{_EXTENSIONS}/{{extension}}",
            find=self.find,
            each=self.each,
            render=lambda state, extension: extension,
            create=self.create,
            change=self.change,
            delete=self.delete,
            long_running=True,
        )

    def _document(self, state: ArmState, machine: Machine, item: Json) -> Document:
        name = str(get_path(item, "name"))
        return _rendered(item, self._id(state, machine, name), name, self.kind)

    def _id(self, state: ArmState, machine: Machine, name: str) -> str:
        return f"{resource_ids.machine_id(state, machine)}/{_EXTENSIONS}/{name}"


def with_extensions(state: ArmState, machine: Machine, document: Document) -> Document:
    """Return the document of a virtual machine with its extensions among its resources."""
    installed: list[Json] = [show() for _, show in _OF_MACHINES.each_of(state, machine)]
    return {**document, "resources": installed} if installed else document


def _items_of_set(state: ArmState, machine: Machine) -> list[Json]:
    """Return the extensions that a machine has from the model of its set."""
    scope = state.scope_of(machine)
    return _items(state, (scope,)) if scope.facts.kind.scales else []


def _items(state: ArmState, scopes: Scopes) -> list[Json]:
    return get_items(state.document(resource_ids.set_id(state, scopes[0])), *_MODEL)


def _require_set(state: ArmState, names: Names) -> Scopes:
    state.require_group(names["group"])
    scopes = resource_ids.find_scopes(state, SCALE_SETS, names)
    if not scopes:
        raise _no_parent(names)
    return scopes


def _find_in_set(state: ArmState, names: Names) -> Document | None:
    scopes, wanted = _require_set(state, names), names["extension"].lower()
    items = (item for item in _items(state, scopes) if str(get_path(item, "name")).lower() == wanted)
    return next((_of_set(state, scopes, item) for item in items), None)


def _each_in_set(state: ArmState, request: ArmRequest) -> Iterator[Found]:
    scopes = _require_set(state, request.names)
    for item in _items(state, scopes):
        yield str(get_path(item, "name")).lower(), partial(_of_set, state, scopes, item)


def _create_in_set(edit: Edit, request: ArmRequest, body: Document) -> None:
    _put_in_set(edit, request, overlay(body, {"name": request.names["extension"]}))


def _change_in_set(edit: Edit, request: ArmRequest, extension: Document, body: Document) -> None:
    own: Document = {"name": extension["name"], "properties": extension["properties"]}
    _put_in_set(edit, request, overlay(overlay(own, body), {"name": extension["name"]}))


def _delete_in_set(edit: Edit, request: ArmRequest, extension: Document) -> None:
    _put_in_set(edit, request, None)


def _put_in_set(edit: Edit, request: ArmRequest, extension: Document | None) -> None:
    """Put an extension into the model of a set in place of that of its name; None removes it."""
    scopes, name = _require_set(edit.state, request.names), request.names["extension"].lower()
    others = [item for item in _items(edit.state, scopes) if str(get_path(item, "name")).lower() != name]
    items: list[Json] = others if extension is None else [*others, extension]
    profile: Document = {"extensionProfile": {_EXTENSIONS: items}}
    scalesets.TYPE.change(edit, request, scopes, {"properties": {"virtualMachineProfile": profile}})


def _of_set(state: ArmState, scopes: Scopes, item: Json) -> Document:
    name = str(get_path(item, "name"))
    identifier = f"{resource_ids.set_id(state, scopes[0])}/{_EXTENSIONS}/{name}"
    return _rendered(item, identifier, name, f"{SCALE_SETS}/{_EXTENSIONS}")


def _rendered(item: Json, identifier: str, name: str, kind: str) -> Document:
    identity: Document = {"id": identifier, "name": name, "type": f"Microsoft.Compute/{kind}"}
    return overlay(item, {**identity, "properties": {"provisioningState": "Succeeded"}})


def _no_parent(names: Names) -> AzureError:
    message = (
        "Can not perform requested operation on nested resource. "
        f"Parent resource '{names.get('instance', names['name'])}' not found."
    )
    return AzureError(404, "ParentResourceNotFound", message)


def _find_instance(state: ArmState, names: Names) -> Machine | None:
    scopes = resource_ids.find_scopes(state, SCALE_SETS, names)
    return scalesets.find_instance(scopes, names["instance"])


_OF_MACHINES = _MachineExtensions(
    kind=f"{VMS}/{_EXTENSIONS}", path=f"{VMS}/{{name}}", find_machine=resource_ids.find_vm
)
MACHINE_TYPE = _OF_MACHINES.type()
INSTANCE_TYPE = _MachineExtensions(
    kind=f"{SCALE_SETS}/{VMS}/{_EXTENSIONS}",
    path=f"{SCALE_SETS}/{{name}}/{VMS}/{{instance}}",
    find_machine=_find_instance,
).type()
SET_TYPE = ResourceType[Document](
    kind=f"{SCALE_SETS}/{_EXTENSIONS}",
    path=f"{SCALE_SETS}/{{name}}/{_EXTENSIONS}/{{extension}}",
    find=_find_in_set,
    each=_each_in_set,
    render=lambda state, extension: extension,
    create=_create_in_set,
    change=_change_in_set,
    delete=_delete_in_set,
    long_running=True,
)
ROUTES = (*MACHINE_TYPE.routes(), *INSTANCE_TYPE.routes(), *SET_TYPE.routes())
