"""Operations: their progress, their end, and how long they can be looked up."""

from fairwarning.arm import groups, operations
from fairwarning.arm.compute import instances, scalesets, vms
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import PLATFORM, EventId, ScopeKind
from fairwarning.core.stored.codecs import Operation
from fairwarning.core.stored.kinds import OPERATION
from tests.arm.azure import BASE, HOME, ROOT, VERSION, Azure, at, header
from tests.arm.compute import SET, scale_set
from tests.fleet_harness import run

DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
DB_ID = f"{HOME}/Microsoft.Compute/virtualMachines/db"
CALL = ArmRequest(method="POST", path=DB_ID, query={"api-version": VERSION}, base=BASE)


def azure() -> Azure:
    return Azure(groups.ROUTES, vms.ROUTES, scalesets.ROUTES, instances.ROUTES, blueprints=[DB])


def begin(cloud: Azure, *events: EventId, resource: str = DB_ID, name: str = "one") -> ArmResponse:
    """Start an operation that waits for events, and return the response to a POST."""
    operation = Operation(started_at=cloud.fleet.now, resource=resource.lower(), events=events)
    text = OPERATION.encode(operation)
    run(cloud.context.change(PLATFORM, lambda edit: edit.draft.put_texts({OPERATION.key(name): text})))
    return operations.accepted_response(cloud.context, CALL, name, "westeurope")


def operation_keys(cloud: Azure) -> list[str]:
    return [name for name, _ in operations.all_operations(cloud.context.committed().view)]


def test_an_operation_is_under_way_for_as_long_as_its_events_are() -> None:
    cloud = azure()
    response = begin(cloud, *cloud.fleet.cause("restart", "db"))

    during = cloud.progress(response)
    cloud.advance("20m")

    assert during == "InProgress"
    assert cloud.progress(response) == "Succeeded"


def test_the_answer_to_an_action_says_where_and_when_to_ask() -> None:
    cloud = azure()

    response = begin(cloud, *cloud.fleet.cause("restart", "db"))

    url = header(response, "Azure-AsyncOperation")
    assert (response.status, response.body) == (202, None)
    assert url is not None
    assert url.startswith(f"{BASE}/subscriptions/")
    assert header(response, "Location") == f"{url}&monitor=true"
    assert header(response, "x-ms-retry-after-ms") == "100"


def test_the_answer_to_a_put_has_no_location() -> None:
    cloud = azure()
    begin(cloud, *cloud.fleet.cause("restart", "db"))

    put = ArmResponse(status=200, body={"name": "db"})
    response = operations.created_response(cloud.context, CALL, "one", put, "Updating")

    assert [name for name, _ in response.headers] == ["Azure-AsyncOperation", "x-ms-retry-after-ms"]
    assert response.status == 200
    assert response.body == {"name": "db", "properties": {"provisioningState": "Updating"}}


def test_every_answer_but_the_last_says_when_to_ask_again() -> None:
    cloud = azure()
    url = header(begin(cloud, *cloud.fleet.cause("restart", "db")), "Location") or ""
    asked = url.replace("&monitor=true", "")

    during = [cloud.fine("GET", asked), cloud.fine("GET", url)]
    cloud.advance("20m")
    after = [cloud.fine("GET", asked), cloud.fine("GET", url)]

    assert [header(response, "x-ms-retry-after-ms") for response in during + after] == [
        "100",
        "100",
        None,
        None,
    ]
    assert [response.status for response in during + after] == [200, 202, 200, 200]
    assert after[1].body is None


def test_the_end_of_an_operation_is_when_its_last_event_ended() -> None:
    cloud = azure()
    (event,) = cloud.fleet.cause("restart", "db")
    url = header(begin(cloud, event), "Azure-AsyncOperation") or ""
    cloud.approve(event)
    cloud.advance("1h")

    outcome = cloud.get(url)

    assert at(outcome, "startTime") == "2026-11-16T12:00:00.000000Z"
    assert at(outcome, "endTime") == "2026-11-16T12:00:05.000000Z"


def test_an_event_that_is_cancelled_takes_its_operation_along() -> None:
    cloud = azure()
    (event,) = cloud.fleet.cause("restart", "db")
    url = header(begin(cloud, event), "Azure-AsyncOperation") or ""

    cloud.fleet.cancel(event)

    outcome = cloud.get(url)
    assert at(outcome, "status") == "Canceled"
    assert at(outcome, "error", "code") == "OperationCanceled"


def test_a_restarted_server_knows_what_is_under_way() -> None:
    cloud = azure()
    response = begin(cloud, *cloud.fleet.cause("restart", "db"))

    cloud.restart()

    assert cloud.progress(response) == "InProgress"


def test_an_operation_nobody_knows_is_not_found() -> None:
    url = header(begin(azure()), "Azure-AsyncOperation") or ""

    assert azure().refused("GET", url)[:2] == (404, "NotFound")


def test_what_ended_long_ago_is_forgotten() -> None:
    cloud = azure()
    begin(cloud, name="old")
    cloud.advance("1h")
    begin(cloud, name="young")
    cloud.get(ROOT)
    before = operation_keys(cloud)
    cloud.advance("1h")

    cloud.get(ROOT)

    assert before == ["old", "young"]
    assert operation_keys(cloud) == ["young"]


def test_a_clock_that_jumps_does_not_take_the_answer_away() -> None:
    cloud = azure()
    response = begin(cloud, *cloud.fleet.cause("restart", "db"))

    cloud.advance("3d")

    assert cloud.progress(response) == "Succeeded"


def test_what_is_under_way_is_never_forgotten() -> None:
    cloud = azure()
    response = begin(cloud, *cloud.fleet.cause("restart", "db", notice="9h"))
    seen = []
    for _ in range(4):
        cloud.advance("2h")
        seen.append(cloud.progress(response))

    cloud.advance("2h")

    assert seen == ["InProgress"] * 4
    assert cloud.progress(response) == "Succeeded"


def test_the_documents_of_what_is_gone_go_with_it() -> None:
    cloud = azure()
    for name in ("web", "web2"):
        cloud.put(f"{SET}/{name}", scale_set(1))
        cloud.put(f"{SET}/{name}/virtualMachines/0", {"properties": {}})
    folder = f"{ROOT}/providers/{SET}/".lower()
    response = cloud.delete(f"{SET}/web?forceDeletion=true")

    run(cloud.upkeep.rest())
    during = [key.removeprefix(folder) for key, _ in cloud.context.committed().documents(folder)]
    cloud.advance("20m")

    assert during == ["web", "web/virtualmachines/0", "web2", "web2/virtualmachines/0"]
    assert cloud.progress(response) == "Succeeded"
    assert [key.removeprefix(folder) for key, _ in cloud.context.committed().documents(folder)] == during[2:]
