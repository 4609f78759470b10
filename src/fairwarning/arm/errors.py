"""Errors in Azure's shape: a code, a message, sometimes a target; az and the SDKs print them."""

from typing import Self

from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.formats.hidden_characters import escape_hidden, first_hidden

Headers = tuple[tuple[str, str], ...]


class AzureError(FairWarningError):
    """The request is refused; clients print ``(code) message``."""

    def __init__(
        self, status: int, code: str, message: str, target: str | None = None, *, headers: Headers = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.target = target
        self.headers = headers

    def body(self) -> dict[str, Json]:
        """Return the error as clients read it."""
        error: dict[str, Json] = {"code": self.code, "message": str(self)}
        if self.target is not None:
            error["target"] = self.target
        return {"error": error}


class InvalidTemplateError(FairWarningError):
    """The template cannot be deployed; ``place`` is the part of the template that is at fault."""

    status_hint = 400

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.place = place

    def at(self, place: str) -> Self:
        """Return the same error with its place, unless a more precise place is already known."""
        return self if self.place else type(self)(self.problem, place)


class DeploymentOverError(FairWarningError):
    """A deployment that is still being worked on has ended: another node carried it on, or it was deleted."""

    status_hint = 409

    def __init__(self, deployment: str) -> None:
        super().__init__(f"the deployment {deployment} has ended meanwhile, or was deleted")


def not_found(kind: str, name: str, group: str) -> AzureError:
    """Return the error for a resource that does not exist."""
    message = f"The Resource '{kind}/{name}' under resource group '{group}' was not found."
    return AzureError(404, "ResourceNotFound", message)


def check_resource_name(name: str) -> None:
    """Refuse a name that contains an invisible character."""
    hidden = first_hidden(name)
    if hidden is not None:
        escaped = escape_hidden(name)
        message = f"The resource name {escaped!r} is invalid: it has the character {hidden} in it."
        raise AzureError(400, "InvalidResourceName", message, escaped)


def invalid(target: str, problem: str) -> AzureError:
    """Return the error for an invalid value."""
    message = f"The value of parameter {target} is invalid: {problem}."
    return AzureError(400, "InvalidParameter", message, target)


#: Azure's codes for errors of the core, by status.
CODES = {
    400: "BadRequest",
    404: "ResourceNotFound",
    409: "OperationNotAllowed",
    422: "InvalidParameter",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


def translate(problem: FairWarningError) -> AzureError:
    """Return an error of the core as an error of Azure."""
    if isinstance(problem, AzureError):
        return problem
    status = problem.status_hint
    code = CODES.get(status, "BadRequest")
    headers = () if problem.retry_after is None else (("Retry-After", problem.retry_after),)
    return AzureError(400 if status == 422 else status, code, str(problem), headers=headers)
