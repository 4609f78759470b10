"""While nodes of release 0.2 may use the database, a host has events alone, and nothing is steered."""

import pytest

from fairwarning.core.errors import UnfinishedMigrationError
from fairwarning.core.model import OPERATOR
from fairwarning.core.stored.releases import OLDEST
from tests.core.maintained import MaintainedFleet
from tests.fleet_harness import run


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> MaintainedFleet:
    """Return a fleet whose database waits for ``db migrate --finish``."""
    fleet = MaintainedFleet()
    monkeypatch.setattr(fleet.store, "oldest_reader", OLDEST)
    return fleet


@pytest.mark.rule("U-01")
def test_a_host_is_warned_and_goes_down_as_before(waiting: MaintainedFleet) -> None:
    announced = run(waiting.control.cause(OPERATOR, "host-reboot", host="kvm-1"))

    assert len(announced.events) == 2
    assert waiting.control.maintenances.pending("kvm-1") == ()
    waiting.approve_all("web")
    assert waiting.down() == []
    waiting.approve_all("db")
    assert waiting.down() == ["db/db_0", "web/web_0"]
    waiting.complete()
    assert waiting.pending("web") == ()


@pytest.mark.rule("U-01")
def test_a_date_waits_for_the_end_of_the_migration(waiting: MaintainedFleet) -> None:
    with pytest.raises(UnfinishedMigrationError, match="run fairwarning db migrate --finish first"):
        waiting.maintain("kvm-1", opens="5h")

    assert waiting.pending("web") == ()


@pytest.mark.rule("U-01")
def test_a_hold_waits_for_the_end_of_the_migration(waiting: MaintainedFleet) -> None:
    with pytest.raises(UnfinishedMigrationError):
        waiting.hold("storage")

    waiting.cause("freeze", "web_0")
    waiting.approve_all()
    assert waiting.down() == ["web/web_0"]
