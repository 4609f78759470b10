"""All types of resources in the table, and what templates need of them."""

from collections.abc import Callable, Mapping

from fairwarning.arm.compute import (
    availability_sets,
    cloud_services,
    disks,
    extensions,
    instances,
    interfaces,
    scalesets,
    vms,
)
from fairwarning.arm.documents import Document
from fairwarning.arm.messages import ArmRequest, Handler
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState

ROUTES: tuple[ArmRoute, ...] = (
    *vms.ROUTES,
    *scalesets.ROUTES,
    *instances.ROUTES,
    *availability_sets.ROUTES,
    *cloud_services.ROUTES,
    *disks.ROUTES,
    *interfaces.ROUTES,
    *extensions.ROUTES,
)
_TOP_TYPES = (vms.TYPE, scalesets.TYPE, availability_sets.TYPE, cloud_services.TYPE, disks.TYPE)
_TEMPLATE_TYPES = (*_TOP_TYPES, extensions.MACHINE_TYPE, extensions.INSTANCE_TYPE, extensions.SET_TYPE)
#: The types of resources that have tags.
TAGGED_TYPES = (*_TOP_TYPES, instances.TYPE, extensions.MACHINE_TYPE)

#: What puts the resources of a type, by the type in lower case.
PUTS: Mapping[str, Handler] = {
    f"microsoft.compute/{type.kind}".lower(): type.put_at_path for type in _TEMPLATE_TYPES
}
#: What returns the documents of a type.
FIND_DOCUMENTS: Mapping[str, Callable[[ArmState, ArmRequest], Document | None]] = {
    f"microsoft.compute/{type.kind}".lower(): type.find_document for type in _TOP_TYPES
}
