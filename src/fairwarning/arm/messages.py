"""A request to the management API, matched to its route, and the response."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fairwarning.arm.errors import AzureError
from fairwarning.arm.templates.budget import Budget
from fairwarning.core.document.render import Json
from fairwarning.core.model import Principal, PrincipalKind

if TYPE_CHECKING:
    from fairwarning.arm.context import ArmContext
    from fairwarning.arm.state import ArmState

#: The principal of requests without a token.
ANONYMOUS = Principal(PrincipalKind.MANAGEMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRequest:
    """A request that has a route; ``names`` are the variable parts of its path, spelled as sent."""

    method: str
    path: str
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: Json = None
    base: str = ""
    #: What the request depends on, as its headers say (T-25).
    if_match: str = ""
    if_none_match: str = ""
    #: Whom the token names.
    principal: Principal = ANONYMOUS
    #: The address of the client.
    caller: str = ""
    #: What evaluating templates may still cost; a nested deployment shares the budget of the outer one.
    budget: Budget | None = None
    #: The id of the deployment that sends the request; empty for a client.
    deployment: str = ""
    #: Raises if the state that the request is decided on is not one in which that deployment goes on.
    check_deployment: "Callable[[ArmState], None]" = lambda state: None
    #: The secrets of that deployment: they must not be stored.
    secrets: frozenset[str] = frozenset()

    @property
    def version(self) -> str:
        """The api-version of the request."""
        return self.query.get("api-version", "")

    def fields(self) -> dict[str, Json]:
        """Return the body as an object; no body is an empty object.

        Raises:
            AzureError: the body is not an object.
        """
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise AzureError(400, "InvalidRequestContent", "The request content must be a JSON object.")
        return self.body


class ArmResponse(NamedTuple):
    """A response; a body of None is empty."""

    status: int = 200
    body: Json = None
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = "Callable[[ArmContext, ArmRequest], Awaitable[ArmResponse]]"
