"""The testing room: a fleet inside a test, in this very process, in time that moves only when told to.

    with fleet(scale_set=3) as fairwarning:
        event = fairwarning.restart("web_0")
        start_my_handler(fairwarning.endpoint("web_0"))
        fairwarning.assert_approved(event, by="web_0", within="40s")

May import the rooms below ``serve``; of the faces it needs only the one that guests see. Start reading at
``fleets.py``. pytest's fixture is in ``fairwarning_pytest.py``, beside the package.
"""

from fairwarning.testing.events import FleetEvent as Event
from fairwarning.testing.fleets import Fleet, fleet

__all__ = ["Event", "Fleet", "fleet"]
