"""Carries out requests: authorises them, makes their commands and has them decided once."""

from collections.abc import Callable

from fairwarning.control.draft import Draft
from fairwarning.core.model import Principal
from fairwarning.engine.clock import new_request_id
from fairwarning.engine.engine import Engine
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
