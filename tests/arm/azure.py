"""The management API without HTTP: every request is one synchronous call, over a fleet in memory.

A path without a leading slash, such as ``Microsoft.Compute/virtualMachines/db``, is below the resource group
``lab``. An error is returned as the response that a client would get.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from fairwarning.arm import operations
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Documents
from fairwarning.arm.documents import get_path
from fairwarning.arm.errors import translate
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import ArmRoute, match
from fairwarning.arm.state import group_document
from fairwarning.arm.upkeep import Upkeep
from fairwarning.core.azure.identity import group_id
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import PLATFORM, MachineRef
from fairwarning.core.policy import Policy
from fairwarning.engine.ports import Store
from fairwarning.engine.requests import Texts
from tests.fleet_harness import FleetHarness, run

BASE = "https://azure.test"
VERSION = "2024-07-01"
GROUP = "lab"
ROOT = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
HOME = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fairwarning/providers"


class Azure:
    """Requests to the management API, and the fleet behind it."""

    def __init__(
        self,
        *tables: Iterable[ArmRoute],
        blueprints: Sequence[Blueprint] = (),
        watched: bool = True,
        policy: Policy | None = None,
        store: Store | None = None,
    ) -> None:
        self.routes = (*(route for table in tables for route in table), *operations.ROUTES)
        self.fleet = FleetHarness(*blueprints, watched=watched, policy=policy, store=store)
        self.opened_endpoints: list[MachineRef] = []
        self.context = self._open()
        if self.context.committed().document(ROOT) is None:
            self.keep({group_id(GROUP): group_document(GROUP, "westeurope", {})})

    # -- clients

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        version: str = VERSION,
        if_match: str = "",
        if_none_match: str = "",
    ) -> ArmResponse:
        """Send a request and return the response, success or error; the path may have a query."""
        conditions = {"if_match": if_match, "if_none_match": if_none_match}
        return run(self.answer(method, path, body, version=version, **conditions))

    async def answer(
        self, method: str, path: str, body: Json = None, *, version: str = VERSION, **conditions: str
    ) -> ArmResponse:
        """Return the response to a request; for tests that send several at once."""
        parts = urlsplit(path if path.startswith(("/", BASE)) else f"{ROOT}/providers/{path}")
        query = {"api-version": version, **dict(parse_qsl(parts.query))}
        request = ArmRequest(
            method=method,
            path=parts.path,
            query=query,
            body=body,
            base=BASE,
            if_match=conditions.get("if_match", ""),
            if_none_match=conditions.get("if_none_match", ""),
        )
        try:
            route, names = match(self.routes, method, parts.path)
            return await route.handler(self.context, replace(request, names=names))
        except FairWarningError as problem:
            error = translate(problem)
            return ArmResponse(status=error.status, body=error.body(), headers=error.headers)

    def get(self, path: str, *, version: str = VERSION) -> Json:
        """Return the document at a path."""
        return self.fine("GET", path, version=version).body

    def put(self, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Put a document; the request must succeed."""
        return self.fine("PUT", path, body, version=version)

    def patch(self, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Patch a document; the request must succeed."""
        return self.fine("PATCH", path, body, version=version)

    def post(self, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Post an action; the request must succeed."""
        return self.fine("POST", path, body, version=version)

    def delete(self, path: str, *, version: str = VERSION) -> ArmResponse:
        """Delete a resource; the request must succeed."""
        return self.fine("DELETE", path, version=version)

    def fine(self, method: str, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Send a request that must succeed and return the response."""
        response = self.send(method, path, body, version=version)
        assert response.status < 400, response
        return response

    def refused(
        self, method: str, path: str, body: Json = None, *, version: str = VERSION
    ) -> tuple[int, str, str]:
        """Send a request that must be refused; return its status, code and message."""
        response = self.send(method, path, body, version=version)
        assert response.status >= 400, response
        return (
            response.status,
            str(get_path(response.body, "error", "code")),
            str(get_path(response.body, "error", "message")),
        )

    def names(self, path: str) -> list[str]:
        """Return the names of the resources in a list, in order."""
        resources = get_path(self.get(path), "value")
        assert isinstance(resources, list)
        return [str(get_path(resource, "name")) for resource in resources]

    def progress(self, response: ArmResponse) -> str:
        """Return the status of the operation in a response; without an operation, Succeeded."""
        url = header(response, "Azure-AsyncOperation")
        return "Succeeded" if url is None else str(get_path(self.get(url), "status"))

    # -- guests, operators and time

    def poll(self, *machines: str) -> None:
        """Poll as these machines; their scopes are warned from then on."""
        self.fleet.poll(*machines)

    def approve(self, *ids: str) -> None:
        """Approve events."""
        self.fleet.approve(*ids)

    def approve_all(self) -> None:
        """Approve all events that have not started."""
        for event_id in self.waiting():
            self.fleet.approve(event_id)

    def waiting(self) -> list[str]:
        """Return the ids of the events that have not started."""
        scopes = self.fleet.engine.scopes().values()
        return [str(event.id) for scope in scopes for event in scope.events.values() if event.waiting]

    def advance(self, by: str) -> None:
        """Advance the clock, stopping at every deadline on the way."""
        self.fleet.advance(by)

    def keep(self, documents: Documents) -> None:
        """Store documents that no request has put."""
        run(self.context.change(PLATFORM, lambda edit: edit.put(documents)))

    def keep_texts(self, texts: Texts) -> None:
        """Store texts that no request has put."""
        run(self.context.change(PLATFORM, lambda edit: edit.draft.put_texts(texts)))

    def restart(self) -> None:
        """Stop the server and start another one on the same store."""
        self.fleet.restart()
        self.context = self._open()

    def _open(self) -> ArmContext:
        context = ArmContext(
            self.fleet.engine,
            open_endpoints=self._open_endpoints,
            retry_after=("x-ms-retry-after-ms", "100"),
        )
        self.upkeep = Upkeep(context)
        run(self.upkeep.rest())
        return context

    async def _open_endpoints(self, machines: Sequence[MachineRef]) -> None:
        self.opened_endpoints.extend(machines)


def header(response: ArmResponse, name: str) -> str | None:
    """Return a header of a response."""
    return next((value for key, value in response.headers if key.lower() == name.lower()), None)


def at(document: Json, *path: str | int) -> Json:
    """Return the value at a path of a document; a number is an index of a list."""
    for step in path:
        if isinstance(step, int):
            assert isinstance(document, list)
            document = document[step]
        else:
            document = get_path(document, step)
    return document
