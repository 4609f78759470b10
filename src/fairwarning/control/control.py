"""Carries out requests: authorises them, makes their commands and has them decided once."""

from collections.abc import Callable, Sequence

from fairwarning.control.draft import Draft
from fairwarning.core.errors import ReportsRefusedError
from fairwarning.core.model import Principal
from fairwarning.engine.clock import new_request_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import ReportedDriver
from fairwarning.engine.requests import Caller, Plan, Result, View

#: Adds the commands of a request to a draft; called once per try.
Fill = Callable[[Draft], None]


class Control:
    """What callers can ask of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def carry_out(self, principal: Principal, fill: Fill) -> Result:
        """Carry out what ``fill`` puts into a draft, as one commit; return once it is stored."""
        caller = Caller(principal, new_request_id())

        def build(view: View) -> Plan:
            draft = Draft(caller, view)
            fill(draft)
            return draft.plan()

        return await self._engine.submit(caller, build)

    # -- reports about impacts

    async def complete(self, principal: Principal, event_id: str, machines: Sequence[str]) -> Result:
        """Report the impact of an event as done on some machines, or on all if none is named."""
        driver = self._reported_driver()
        return await self.carry_out(
            principal, lambda draft: draft.complete(event_id, machines, driver.reported)
        )

    async def fail(self, principal: Principal, event_id: str, machine: str, reason: str) -> Result:
        """Report the impact of an event as failed on a machine."""
        driver = self._reported_driver()
        return await self.carry_out(
            principal, lambda draft: draft.fail(event_id, machine, reason, driver.reported)
        )

    def _reported_driver(self) -> ReportedDriver:
        driver = self._engine.reconciler.driver
        if not isinstance(driver, ReportedDriver):
            raise ReportsRefusedError(driver.name)
        return driver
