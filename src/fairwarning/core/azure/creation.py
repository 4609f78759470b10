"""What the creator of a machine chose: administrator, keys, licence and plan (I-18)."""

from typing import NamedTuple

from fairwarning.core.azure.identity import FindDocument, machine_documents
from fairwarning.core.azure.members import get_items, get_path
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, ScopeProperties

DEFAULT_ADMINISTRATOR = "ops"


class PublicKey(NamedTuple):
    """A public key, and the file that holds it on the machine."""

    data: str
    path: str


class MarketplacePlan(NamedTuple):
    """The plan of a marketplace image."""

    name: str = ""
    product: str = ""
    publisher: str = ""


class CreationSettings(NamedTuple):
    """The settings of a machine that its creator chose."""

    administrator: str = DEFAULT_ADMINISTRATOR
    public_keys: tuple[PublicKey, ...] = ()
    #: Whether only keys are accepted at logins; None if that does not apply, as on Windows.
    keys_only: bool | None = True
    license_type: str = ""
    plan: MarketplacePlan = MarketplacePlan()


def creation_settings(machine: Machine, scope: ScopeProperties, find: FindDocument) -> CreationSettings:
    """Return the settings in the document of a machine, or in the model of its scale set."""
    own, model = machine_documents(machine, scope, find)
    sources = (get_path(own, "properties"), get_path(model, "properties", "virtualMachineProfile"))
    properties = next((source for source in sources if get_path(source, "osProfile") is not None), None)
    profile = get_path(properties, "osProfile")
    linux = get_path(profile, "linuxConfiguration")
    plan = get_path(own, "plan") or get_path(model, "plan")
    return CreationSettings(
        administrator=_text(profile, "adminUsername") or DEFAULT_ADMINISTRATOR,
        public_keys=tuple(
            PublicKey(_text(key, "keyData"), _text(key, "path"))
            for key in get_items(linux, "ssh", "publicKeys")
        ),
        keys_only=_keys_only(profile),
        license_type=next(filter(None, (_text(source, "licenseType") for source in sources)), ""),
        plan=MarketplacePlan(*(_text(plan, member) for member in MarketplacePlan._fields)),
    )


def _keys_only(profile: Json) -> bool | None:
    if get_path(profile, "windowsConfiguration") is not None:
        return None
    given = get_path(profile, "linuxConfiguration", "disablePasswordAuthentication")
    # Without a profile, the machine is one that no client has described.
    return given is True if profile is not None else True


def _text(document: Json, *path: str) -> str:
    value = get_path(document, *path)
    return value if isinstance(value, str) else ""
