"""A subscription on a table: the management face over a stage, every request one call, no async in sight.

Paths may be written short: ``Microsoft.Compute/virtualMachines/db`` is below the resource group ``lab``, and
what starts with a slash is taken as it is. A refusal comes back as the reply that a client would get.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from fairwarning.arm import operations, operations_routes
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, RetryAfter, group_document, group_id
from fairwarning.arm.errors import translate
from fairwarning.arm.routing import ArmRoute, match
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Policy
from fairwarning.engine.ports import Store
from tests.fleet_harness import FleetHarness, run

BASE = "https://azure.test"
VERSION = "2024-07-01"
GROUP = "lab"
ROOT = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
HOME = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fairwarning/providers"


class Azure:
    """Everything a test sends to the management face, and the stage behind it."""

    def __init__(
        self,
        *tables: Iterable[ArmRoute],
        blueprints: Sequence[Blueprint] = (),
        watched: bool = True,
        policy: Policy | None = None,
        store: Store | None = None,
    ) -> None:
        self.routes = (*(route for table in tables for route in table), *operations_routes.ROUTES)
        self.stage = FleetHarness(*blueprints, watched=watched, policy=policy, store=store)
        self.welcomed: list[MachineRef] = []
        self.room = self._open()
        if self.room.document(ROOT) is None:
            run(self.room.keep({group_id(GROUP): group_document(GROUP, "westeurope", {})}))

    # -- what clients send

    def send(self, method: str, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Send one request and return the answer, whatever it is; the path may bring a query along."""
        return run(self.answer(method, path, body, version=version))

    async def answer(
        self, method: str, path: str, body: Json = None, *, version: str = VERSION
    ) -> ArmResponse:
        """Return the answer to a request; for tests that send several at once."""
        parts = urlsplit(path if path.startswith(("/", BASE)) else f"{ROOT}/providers/{path}")
        query = {"api-version": version, **dict(parse_qsl(parts.query))}
        call = ArmRequest(method=method, path=parts.path, query=query, body=body, base=BASE)
        try:
            await operations.complete_finished(self.room)
            route, names = match(self.routes, method, parts.path)
            return await route.handler(self.room, replace(call, names=names))
        except FairWarningError as problem:
            refusal = translate(problem)
            return ArmResponse(status=refusal.status, body=refusal.body())

    def get(self, path: str, *, version: str = VERSION) -> Json:
        """Return what there is at a path."""
        return self.fine("GET", path, version=version).body

    def put(self, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Put a document where it is granted."""
        return self.fine("PUT", path, body, version=version)

    def patch(self, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Change a document where it is granted."""
        return self.fine("PATCH", path, body, version=version)

    def post(self, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Ask for something to be done where it is granted."""
        return self.fine("POST", path, body, version=version)

    def delete(self, path: str, *, version: str = VERSION) -> ArmResponse:
        """Delete something where it is granted."""
        return self.fine("DELETE", path, version=version)

    def fine(self, method: str, path: str, body: Json = None, *, version: str = VERSION) -> ArmResponse:
        """Send a request that is granted and return the answer."""
        reply = self.send(method, path, body, version=version)
        assert reply.status < 400, reply
        return reply

    def refused(
        self, method: str, path: str, body: Json = None, *, version: str = VERSION
    ) -> tuple[int, str, str]:
        """Send a request that is refused and return its status, the code and the message."""
        reply = self.send(method, path, body, version=version)
        assert reply.status >= 400, reply
        return (
            reply.status,
            str(get_path(reply.body, "error", "code")),
            str(get_path(reply.body, "error", "message")),
        )

    def names(self, path: str) -> list[str]:
        """Return the names of what a list holds, in order."""
        found = get_path(self.get(path), "value")
        assert isinstance(found, list)
        return [str(get_path(one, "name")) for one in found]

    def progress(self, reply: ArmResponse) -> str:
        """Return how far the operation is that an answer told of; without one it is done already."""
        url = header(reply, "Azure-AsyncOperation")
        return "Succeeded" if url is None else str(get_path(self.get(url), "status"))

    # -- what guests, operators and time do

    def poll(self, *machines: str) -> None:
        """Ask for the document, as these machines; from then on their scope is warned."""
        self.stage.poll(*machines)

    def approve(self, *ids: str) -> None:
        """Approve events."""
        self.stage.approve(*ids)

    def approve_all(self) -> None:
        """Approve everything that waits."""
        for event_id in self.waiting():
            self.stage.approve(event_id)

    def waiting(self) -> list[str]:
        """Return the ids of the events that have not started."""
        scopes = self.stage.engine.scopes().values()
        return [str(event.id) for scope in scopes for event in scope.events.values() if event.waiting]

    def advance(self, by: str) -> None:
        """Let time pass, stopping at every deadline on the way."""
        self.stage.advance(by)

    def restart(self) -> None:
        """End the server and start another on the same store."""
        self.stage.restart()
        self.room = self._open()

    def _open(self) -> ArmContext:
        room = ArmContext(
            self.stage.engine, welcome=self._welcome, pace=RetryAfter("x-ms-retry-after-ms", "100")
        )
        run(room.open())
        return room

    async def _welcome(self, machines: Sequence[MachineRef]) -> None:
        self.welcomed.extend(machines)


def header(reply: ArmResponse, name: str) -> str | None:
    """Return a header of an answer."""
    return next((value for key, value in reply.headers if key.lower() == name.lower()), None)


def at(document: Json, *path: str | int) -> Json:
    """Return what stands at a path of a document; a number is a place in a list."""
    for step in path:
        if isinstance(step, int):
            assert isinstance(document, list)
            document = document[step]
        else:
            document = get_path(document, step)
    return document
