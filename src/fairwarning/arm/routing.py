"""Routes: paths ignore case and may have doubled slashes and escapes, as Azure's clients send them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import Handler


@dataclass(frozen=True)
class ArmRoute:
    """A method, a path with ``{names}`` in it, and the handler of its requests."""

    method: str
    template: str
    handler: Handler

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The path as a regular expression that ignores case."""
        text = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.template))
        return re.compile(text, re.IGNORECASE)

    @cached_property
    def depth(self) -> int:
        """The number of parts of the path; a quick test, because no name in it contains a slash."""
        return self.template.count("/")


#: The route of a request, and the names in its path.
RouteMatch = tuple[ArmRoute, Mapping[str, str]]


def match(routes: Iterable[ArmRoute], method: str, path: str) -> RouteMatch:
    """Return the route of a request; a HEAD may have that of a GET.

    Raises:
        AzureError: no route has this path, or none of them this method.
    """
    path = re.sub(r"/{2,}", "/", path).rstrip("/") or "/"
    depth = path.count("/")
    others: dict[str, RouteMatch] = {}
    for route in routes:
        matched = route.pattern.fullmatch(path) if route.depth == depth else None
        if matched is not None:
            names = {name: unquote(value) for name, value in matched.groupdict().items()}
            if route.method == method:
                return route, names
            others.setdefault(route.method, (route, names))
    if method == "HEAD" and "GET" in others:
        return others["GET"]
    if others:
        message = f"The requested resource does not support http method '{method}'."
        raise AzureError(405, "HttpMethodNotAllowed", message)
    raise AzureError(404, "NotFound", f"No resource answers at {path}.")
