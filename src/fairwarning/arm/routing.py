"""Paths as Azure's clients write them: in any case, with doubled slashes, with percent signs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from fairwarning.arm.call import Handler
from fairwarning.arm.errors import AzureError


@dataclass(frozen=True)
class ArmRoute:
    """A method, a path with ``{names}`` in it, and who answers."""

    method: str
    template: str
    handler: Handler

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The path as an expression that ignores case."""
        parts = re.split(r"\{(\w+)\}", self.template)
        text = "".join(
            f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
        )
        return re.compile(text, re.IGNORECASE)


def match(routes: Iterable[ArmRoute], method: str, path: str) -> tuple[ArmRoute, Mapping[str, str]]:
    """Return the route that answers, and what the path calls things by.

    Raises:
        AzureError: nothing answers here, or nothing that knows this method.
    """
    plain = re.sub(r"/{2,}", "/", path).rstrip("/") or "/"
    allowed: list[str] = []
    for route in routes:
        found = route.pattern.fullmatch(plain)
        if found is None:
            continue
        if route.method == method:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
        allowed.append(route.method)
    if allowed:
        message = f"The requested resource does not support http method '{method}'."
        raise AzureError(405, "HttpMethodNotAllowed", message)
    raise AzureError(404, "NotFound", f"No resource answers at {plain}.")
