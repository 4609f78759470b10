"""Sets that are created again under an old name: no guest takes their documents for old ones."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, DeleteScopes
from fairwarning.core.model import EventId, ScopeId
from tests.fleet_harness import FleetHarness
from tests.guest import E1, METADATA, cloud

WEB = Blueprint(name="web", count=1)
E2 = EventId("11111111-1111-4111-8111-111111111111")
E3 = EventId("22222222-2222-4222-8222-222222222222")


@pytest.mark.rule("L-11")
def test_a_tag_of_a_set_that_was_deleted_is_not_taken_for_the_set_made_again() -> None:
    with cloud(WEB) as web:
        web.cause("restart", "web_0", id=E1)
        tag = dict(web.get().headers)["ETag"]
        web.handle(DeleteScopes(id=E2, scopes=(ScopeId("web"),), force=True))
        web.advance(seconds=5)
        web.handle(CreateSet(seed="again", blueprint=WEB))
        web.cause("redeploy", "web_0", id=E3)

        reply = web.get(headers={**METADATA, "if-none-match": (tag,)})

        assert reply.status == 200
        assert [event["EventId"] for event in web.events()] == [E3]


@pytest.mark.rule("L-11")
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("again", "scopes"),
    [
        pytest.param(WEB, ["web"], id="as it was"),
        pytest.param(
            Blueprint(name="web", count=2, zones=("1", "2")), ["web.zone1", "web.zone2"], id="in zones"
        ),
    ],
)
def test_a_set_made_again_counts_on_from_the_last_document_of_its_name(
    again: Blueprint, scopes: list[str], restarted: bool
) -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("15m5s")
    stage.remove("web", force=True)
    last = stage.incarnation("web")
    stage.advance("5s")

    if restarted:
        stage.restart()
    stage.make(again)

    assert last > 1
    assert [stage.incarnation(scope) for scope in scopes] == [last + 1] * len(scopes)


@pytest.mark.rule("L-11")
def test_the_zone_that_counted_furthest_is_the_last_document_of_a_set() -> None:
    zonal = Blueprint(name="web", count=2, zones=("1", "2"))
    stage = FleetHarness(zonal)
    for _ in range(3):
        stage.cause("hardware-failure", "web_0")
        stage.advance("5s")
    last = stage.incarnation("web.zone1")
    stage.remove("web", force=True)
    stage.advance("5s")

    stage.make(zonal)

    assert last > 3
    assert stage.incarnation("web.zone1") == stage.incarnation("web.zone2") == last + 1


@pytest.mark.rule("L-11")
def test_a_set_of_another_group_counts_for_itself() -> None:
    stage = FleetHarness(WEB)
    stage.remove("web", force=True)
    stage.advance("5s")

    stage.make(Blueprint(name="web", group="lab", count=1), watched=False)

    assert stage.incarnation("lab/web") == 1
