"""Refusals in the shape that az and the SDKs print: a code, a message, sometimes what it is about."""

from fairwarning.core.errors import FairWarningError
from fairwarning.core.wire import Json


class AzureError(FairWarningError):
    """The request is refused; clients print ``(code) message``."""

    def __init__(self, status: int, code: str, message: str, target: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.target = target

    def body(self) -> dict[str, Json]:
        """Return the error as clients read it."""
        error: dict[str, Json] = {"code": self.code, "message": str(self)}
        if self.target is not None:
            error["target"] = self.target
        return {"error": error}


def not_found(kind: str, name: str, group: str) -> AzureError:
    """Return the refusal of a resource that does not exist."""
    where = f"The Resource '{kind}/{name}' under resource group '{group}' was not found."
    return AzureError(404, "ResourceNotFound", where)


def group_not_found(group: str) -> AzureError:
    """Return the refusal of a resource group that does not exist."""
    return AzureError(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def invalid(target: str, problem: str) -> AzureError:
    """Return the refusal of a value."""
    return AzureError(
        400, "InvalidParameter", f"The value of parameter {target} is invalid: {problem}.", target
    )


#: What a refusal of the core is called in Azure's words, by status.
CODES = {
    400: "BadRequest",
    404: "ResourceNotFound",
    409: "OperationNotAllowed",
    422: "InvalidParameter",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


def translate(problem: FairWarningError) -> AzureError:
    """Return a refusal of the core in Azure's words."""
    if isinstance(problem, AzureError):
        return problem
    status = problem.status_hint
    return AzureError(400 if status == 422 else status, CODES.get(status, "BadRequest"), str(problem))
