"""A client of the console over a fleet on named hosts, on which operators act."""

import asyncio
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from fairwarning.console.app import create_app
from fairwarning.control.control import Control
from fairwarning.core.maintenance.values import MaintenanceBudget
from tests.console.console_client import ConsoleTestClient, ParsedPage, address
from tests.core.maintained import TWO_HOSTS, MaintainedFleet
from tests.fleet_harness import run

BERLIN = ZoneInfo("Europe/Berlin")


class HostsClient(ConsoleTestClient):
    """A client of the console over a fleet on named hosts, on which operators act."""

    def __init__(
        self,
        machines: Mapping[str, Mapping[str, str]] = TWO_HOSTS,
        *budgets: MaintenanceBudget,
        zone: ZoneInfo = BERLIN,
    ) -> None:
        self.fleet = MaintainedFleet(machines, *budgets)
        shutdown = asyncio.Event()
        self.fleet.control = Control(self.fleet.engine, zone=BERLIN)
        app = create_app(self.fleet.control, endpoints=address, shutdown=shutdown)
        super().__init__(self.fleet, app, shutdown)

    def ask(self, action: str, host: str = "kvm-1", **form: str) -> str:
        """Send the form of an action on a host, and return the page after it."""
        page = self.accepted(f"/hosts/{host}/{action}", page=f"/hosts/{host}", **form)
        run(self.fleet.engine.tick())
        return page

    def buttons(self, host: str = "kvm-1") -> set[str]:
        """Return the actions that the page of a host offers."""
        forms = ParsedPage(self.page(f"/hosts/{host}"), "form").attributes
        return {form["action"].rpartition("/")[2] for form in forms if form["action"].startswith("/hosts/")}
