"""One request to the management face, and its answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from fairwarning.arm.errors import AzureError
from fairwarning.arm.templates.budget import Budget
from fairwarning.core.document.render import Json

if TYPE_CHECKING:
    from fairwarning.arm.context import ArmContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRequest:
    """A request, matched to a route: ``names`` are what the path calls things by, in their own case."""

    method: str
    path: str
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: Json = None
    base: str = ""
    by: str = "az"
    #: The address that the request came from.
    caller: str = ""
    #: What evaluating a template may still cost; a deployment inside another shares the other's.
    budget: Budget | None = None

    @property
    def version(self) -> str:
        """The api-version asked for."""
        return self.query.get("api-version", "")

    def fields(self) -> dict[str, Json]:
        """Return the body as an object, or refuse; no body at all is an empty one."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise AzureError(400, "InvalidRequestContent", "The request content must be a JSON object.")
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResponse:
    """An answer; None is an empty body."""

    status: int = 200
    body: Json = None
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = "Callable[[ArmContext, ArmRequest], Awaitable[ArmResponse]]"


def get_path(document: Json, *path: str) -> Json:
    """Return what stands at a path of a document, or None; keys are matched without regard to case."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = next((value for name, value in document.items() if name.lower() == key.lower()), None)
    return document


def deep_merge(old: Json, new: Json) -> Json:
    """Return ``old`` with ``new`` laid over it: objects merge, everything else is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    known = {name.lower(): name for name in old}
    after = dict(old)
    for name, value in new.items():
        key = known.get(name.lower(), name)
        after[key] = deep_merge(after[key], value) if key in after else value
    return after
