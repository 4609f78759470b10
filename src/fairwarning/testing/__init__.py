"""A fleet inside a test: in this process, with a clock that moves only when the test moves it.

    with fleet(scale_set=3) as fairwarning:
        event = fairwarning.restart("web_0")
        start_my_handler(fairwarning.endpoint("web_0"))
        fairwarning.assert_approved(event, by="web_0", within="40s")

Public, like ``fairwarning`` itself: ``docs/reference/public-api.md`` lists the names. May import the packages
below ``server``; of the APIs it needs the metadata API alone. Start reading at ``fleets.py``. The pytest
fixture is in ``fairwarning_pytest.py``, beside the package.
"""

from fairwarning.testing.events import FleetEvent as Event
from fairwarning.testing.fleets import Fleet, fleet

__all__ = ["Event", "Fleet", "fleet"]
