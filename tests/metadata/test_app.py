"""Responses to guests: statuses, bodies, headers, and the order of the checks."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet
from fairwarning.core.document.versions import EVENT_VERSIONS
from fairwarning.core.model import EventId, ScopeKind
from fairwarning.core.policy import PROFILES, Profile
from fairwarning.http1.messages import Response
from tests.guest import E1, EVENTS, METADATA, NEWEST, UNHURRIED, Cloud, cloud, error_of, start

MISSING_VERSION = (
    "Bad request. api-version is invalid or was not specified in the request. "
    "For more information refer to aka.ms/azureimds"
)
TWO = EventId("11111111-1111-4111-8111-111111111111")
#: The usual burst, without new tokens however long a test takes.
STINGY = Profile(requests_per_second=1e-9)


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


def header(response: Response, name: str) -> str | None:
    return dict(response.headers).get(name)


@pytest.mark.rule("R-01")
@pytest.mark.rule("V-08")
def test_a_poll_is_answered_with_the_document_as_json(web: Cloud) -> None:
    reply = web.get()

    assert (reply.status, reply.body) == (200, b'{"DocumentIncarnation":1,"Events":[]}')
    assert reply.content_type == "application/json; charset=utf-8"
    assert header(reply, "ETag") == '"1"'


@pytest.mark.rule("R-01")
def test_the_format_parameter_has_no_text_form_here(web: Cloud) -> None:
    assert web.get(query=f"{NEWEST}&format=text").body.startswith(b"{")


@pytest.mark.rule("R-02")
@pytest.mark.parametrize(
    "path", ["/metadata/scheduledEvents", "/Metadata/ScheduledEvents", "/metadata/scheduledevents/"]
)
def test_the_path_is_matched_without_regard_to_case(web: Cloud, path: str) -> None:
    assert web.get(path=path).status == 200


@pytest.mark.rule("R-03")
def test_a_caller_that_nobody_knows_is_refused_and_never_shown_an_empty_document(web: Cloud) -> None:
    reply = web.get(None)

    assert reply.status == 403
    assert "no machine" in error_of(reply)


@pytest.mark.rule("R-03")
def test_a_machine_that_was_deleted_is_a_stranger(web: Cloud) -> None:
    web.cause("delete", "web_2")
    web.advance(minutes=1)

    assert web.get("web_2").status == 403


@pytest.mark.rule("R-04")
@pytest.mark.parametrize(
    ("values", "status"),
    [
        pytest.param((), 400, id="no header"),
        pytest.param(("false",), 400, id="a header that says no"),
        pytest.param(("true", "false"), 400, id="two headers that disagree"),
        pytest.param(("true",), 200, id="true"),
        pytest.param(("True",), 200, id="True, as one documented sample writes it"),
        pytest.param((" TRUE ",), 200, id="white space around it"),
    ],
)
def test_the_metadata_header_must_say_true(web: Cloud, values: tuple[str, ...], status: int) -> None:
    reply = web.get(headers={"metadata": values} if values else {})

    assert reply.status == status
    if status == 400:
        assert reply.body == b'{"error":"Bad request. Required metadata header not specified"}'


@pytest.mark.rule("R-05")
def test_a_request_that_came_through_a_proxy_is_refused(web: Cloud) -> None:
    reply = web.get(headers={**METADATA, "x-forwarded-for": ("10.0.0.1",)})

    assert reply.status == 400
    assert "X-Forwarded-For" in error_of(reply)


@pytest.mark.rule("R-05a")
@pytest.mark.rule("V-10")
@pytest.mark.parametrize(
    ("version", "method", "status"),
    [
        pytest.param("2017-03-01", "GET", 400, id="the oldest version wants it on a poll"),
        pytest.param("2017-03-01", "POST", 200, id="but takes an approval without it"),
        pytest.param("2017-08-01", "POST", 400, id="which ended with the next version"),
        pytest.param("2017-08-01", "GET", 400, id="that wants it on every request"),
    ],
)
def test_the_header_is_asked_for_as_the_version_says(
    web: Cloud, version: str, method: str, status: int
) -> None:
    web.cause("restart", "web_0")
    query = f"api-version={version}"

    reply = (
        web.post(start(), query=query, headers={}) if method == "POST" else web.get(query=query, headers={})
    )

    assert reply.status == status


@pytest.mark.rule("R-06")
@pytest.mark.rule("V-02")
@pytest.mark.parametrize(
    "query", ["", "api-version=", "api-version=latest", "api-version=2020-7-1", "apiversion=x"]
)
def test_a_missing_or_malformed_version_is_told_the_newest_three(web: Cloud, query: str) -> None:
    reply = web.get(query=query)

    assert reply.status == 400
    assert json.loads(reply.body) == {
        "error": MISSING_VERSION,
        "newest-versions": ["2020-07-01", "2019-08-01", "2019-04-01"],
    }


@pytest.mark.rule("R-06")
@pytest.mark.rule("R-07")
@pytest.mark.parametrize("query", ["", "api-version=2020-07-01", "api-version=1999-01-01"])
def test_on_instance_an_unserved_version_is_a_bad_request(web: Cloud, query: str) -> None:
    reply = web.get(query=query, path="/metadata/instance")

    assert reply.status == 400
    assert json.loads(reply.body)["newest-versions"] == ["2025-04-07", "2024-07-17", "2024-03-15"]


@pytest.mark.rule("R-07")
def test_a_date_that_is_not_served_is_a_page_that_is_not_there(web: Cloud) -> None:
    assert web.get(query="api-version=2024-07-09").status == 404


@pytest.mark.rule("R-07")
def test_the_preview_version_is_served_once_asked_for() -> None:
    with cloud(profile=replace(UNHURRIED, preview_version=True)) as web:
        assert web.get(query="api-version=2024-07-09").status == 200


def test_advice_to_rebalance_is_shown_by_the_preview_version_alone() -> None:
    spot = Blueprint(name="web", spot=True)
    with cloud(spot, profile=replace(UNHURRIED, preview_version=True)) as web:
        web.cause("rebalance", "web_0")

        (advice,) = web.events(query="api-version=2024-07-09")
        assert advice["EventType"] == "SpotRebalanceRecommendation"
        assert web.events() == []
        web.advance(minutes=16)
        assert web.events(query="api-version=2024-07-09") == []


@pytest.mark.rule("R-08")
@pytest.mark.parametrize("path", [EVENTS, "/metadata/instance"])
def test_a_parameter_given_twice_is_refused(web: Cloud, path: str) -> None:
    reply = web.get(query="api-version=2019-08-01&api-version=2019-08-01", path=path)

    assert reply.status == 400
    assert "more than once" in error_of(reply)


@pytest.mark.rule("I-08")
def test_parameters_nobody_knows_are_ignored(web: Cloud) -> None:
    assert web.get(query="api-version=2021-08-01&extended=true", path="/metadata/instance").status == 200
    assert web.get(query=f"{NEWEST}&format=json&color=blue").status == 200


@pytest.mark.rule("R-09")
@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/metadata/nothing", 404, 'API is not found: Path = "/metadata/nothing", Method = "GET"'),
        ("GET", "/Metadata/x", 404, 'API is not found: Path = "/Metadata/x", Method = "GET"'),
        ("PUT", EVENTS, 405, f'Http method is not allowed: Path = "{EVENTS}", Method = "PUT"'),
        ("OPTIONS", EVENTS, 405, f'Http method is not allowed: Path = "{EVENTS}", Method = "OPTIONS"'),
        (
            "POST",
            "/metadata/versions",
            405,
            'Http method is not allowed: Path = "/metadata/versions", Method = "POST"',
        ),
    ],
)
def test_errors_are_objects_with_the_words_of_the_service(
    web: Cloud, method: str, path: str, status: int, message: str
) -> None:
    reply = web.get(path=path, method=method)

    assert (reply.status, json.loads(reply.body)) == (status, {"error": message})


@pytest.mark.rule("R-27")
@pytest.mark.parametrize(
    ("path", "query", "headers", "status", "body"),
    [
        pytest.param(
            "/metadata/instance", "api-version=2021-02-01", {}, 400,
            b'{ "error": "Bad request: . Required metadata header not specified" }', id="no header",
        ),
        pytest.param(
            "/metadata/instance", "api-version=2017-07-01", METADATA, 404,
            b'{ "error": "Not found. Invalid version requested" }', id="no such version of instance",
        ),
        pytest.param(
            EVENTS, "api-version=2024-07-09", METADATA, 400,
            b'{ "error": "Bad request. api-version was not specified in the request. For more information '
            b'refer to aka.ms/azureimds", "newest-versions": ["2020-07-01", "2019-08-01", "2019-04-01"] }',
            id="no such version of scheduledevents",
        ),
    ],
)  # fmt: skip
def test_the_profile_of_2020_has_the_errors_that_were_captured_then(
    path: str, query: str, headers: dict[str, tuple[str, ...]], status: int, body: bytes
) -> None:
    profile = replace(PROFILES["azure2020"], requests_per_second=1e9, burst=1e9)
    with cloud(profile=profile) as web:
        reply = web.get(path=path, query=query, headers=headers)
        refused = web.post(b"nonsense")

    assert (reply.status, reply.body) == (status, body)
    assert refused.body.startswith(b'{ "error": "Bad request. ')


@pytest.mark.rule("R-28")
@pytest.mark.parametrize("path", ["/", "/latest/meta-data", "/metadatax", "/favicon.ico"])
def test_a_path_outside_of_metadata_is_answered_with_a_page(web: Cloud, path: str) -> None:
    reply = web.get(path=path)

    assert (reply.status, reply.content_type) == (404, "text/html")
    assert header(reply, "Server") == "Microsoft-IIS/10.0"
    assert reply.body.startswith(b"<!DOCTYPE html>")


def test_no_answer_ever_allows_another_origin(web: Cloud) -> None:
    for method in ("GET", "OPTIONS", "POST"):
        reply = web.get(method=method, headers={**METADATA, "origin": ("http://evil.example",)})
        assert not any(name.lower().startswith("access-control") for name, _ in reply.headers)


@pytest.mark.rule("R-10")
def test_the_sixth_request_of_a_burst_is_too_many() -> None:
    with cloud(profile=STINGY) as web:
        statuses = [web.get().status for _ in range(6)]
        other = web.get("web_1").status
        last = web.get()

    assert statuses == [200] * 5 + [429]
    assert other == 200
    assert (last.status, header(last, "Retry-After")) == (429, "1")
    assert error_of(last) == "Too many requests"


@pytest.mark.rule("R-10")
@pytest.mark.rule("I-07")
def test_all_categories_share_one_allowance() -> None:
    with cloud(profile=STINGY) as web:
        instance = "/metadata/instance"
        statuses = [web.get(query="api-version=2021-02-01", path=instance).status for _ in range(5)]

        assert statuses == [200] * 5
        assert web.get().status == 429


@pytest.mark.rule("R-11")
@pytest.mark.parametrize(
    ("mistakes", "status", "message"),
    [
        pytest.param({"path"}, 404, "API is not found", id="the path comes first"),
        pytest.param({"proxy", "header", "twice"}, 400, "X-Forwarded-For", id="then the proxy"),
        pytest.param({"header", "twice", "method"}, 400, "metadata header", id="then the header"),
        pytest.param({"twice", "method"}, 400, "more than once", id="then the parameters"),
        pytest.param({"version", "method"}, 400, "api-version", id="then the version"),
        pytest.param({"method"}, 405, "not allowed", id="then the method"),
    ],
)
def test_checks_are_made_in_one_order(web: Cloud, mistakes: set[str], status: int, message: str) -> None:
    headers = {} if "header" in mistakes else dict(METADATA)
    if "proxy" in mistakes:
        headers["x-forwarded-for"] = ("10.0.0.1",)
    query = "" if "version" in mistakes else f"{NEWEST}&{NEWEST}" if "twice" in mistakes else NEWEST

    reply = web.get(
        query=query,
        path="/metadata/nowhere" if "path" in mistakes else EVENTS,
        headers=headers,
        method="DELETE" if "method" in mistakes else "GET",
    )

    assert reply.status == status
    assert message in error_of(reply)


@pytest.mark.rule("V-02")
def test_the_path_of_the_first_preview_is_gone_unless_asked_for(web: Cloud) -> None:
    path = "/metadata/latest/scheduledevents"

    assert web.get(path=path, query="api-version=2017-08-01").status == 404
    with cloud(profile=replace(UNHURRIED, legacy_latest_path=True)) as old:
        old.cause("restart", "web_0")
        assert old.get(path=path, query="api-version=2017-08-01").status == 200
        assert b'"_web_0"' in old.get(path=path, query="").body


@pytest.mark.parametrize("version", EVENT_VERSIONS)
@pytest.mark.rule("V-01")
def test_every_version_is_served(web: Cloud, version: str) -> None:
    assert web.get(query=f"api-version={version}").status == 200


def test_the_first_preview_serves_its_own_version_and_dates() -> None:
    profile = replace(PROFILES["preview2017"], requests_per_second=1e9, burst=1e9)
    with cloud(profile=profile) as web:
        web.cause("restart", "web_0")

        unserved = web.get(query="api-version=2017-08-01")
        (event,) = web.events(query="api-version=2017-03-01")

    assert unserved.status == 400
    assert json.loads(unserved.body)["newest-versions"] == ["2017-03-01"]
    assert event["NotBefore"] == "2026-11-16T12:15:00Z"
    assert event["Resources"] == ["_web_0"]


@pytest.mark.rule("R-24")
def test_a_zonal_set_shows_each_zone_its_own_document() -> None:
    with cloud(Blueprint(name="web", count=4, zones=("1", "2"))) as web:
        web.cause("restart", "web_0", scope="web.zone1")

        assert b"web_0" in web.get("web_2", scope="web.zone1").body
        assert b"web_0" not in web.get("web_1", scope="web.zone2").body


@pytest.mark.rule("S-08")
@pytest.mark.rule("S-06")
@pytest.mark.parametrize(
    ("blueprint", "name"),
    [
        (Blueprint(name="web"), "web_0"),
        (Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET), "app-0"),
        (Blueprint(name="db", kind=ScopeKind.STANDALONE), "db"),
    ],
)
def test_a_machine_finds_the_name_that_events_call_it_by(blueprint: Blueprint, name: str) -> None:
    with cloud(blueprint) as fleet:
        fleet.cause("restart", name, scope=blueprint.name)

        response = fleet.get(
            name,
            "api-version=2021-02-01&format=text",
            path="/metadata/instance/compute/name",
            scope=blueprint.name,
        )
        document = json.loads(fleet.get(name, scope=blueprint.name).body)

    assert response.body.decode() == name
    assert document["Events"][0]["Resources"] == [name]


@pytest.mark.rule("I-01")
@pytest.mark.rule("I-02")
@pytest.mark.rule("I-05")
@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/metadata/versions", "", 200),
        ("/metadata", "format=text", 200),
        ("/metadata/instance/compute", "api-version=2021-02-01", 200),
        ("/metadata/instance/compute/name", "api-version=2021-02-01", 400),
        ("/metadata/instance/compute/nope", "api-version=2021-02-01", 404),
        ("/metadata/instance/Compute", "api-version=2021-02-01", 404),
        ("/metadata/instance/network/interface/0/macAddress", "api-version=2021-02-01&format=text", 200),
        ("/metadata/attested/document", "api-version=2021-02-01", 404),
        ("/metadata/identity/oauth2/token", "api-version=2018-02-01", 400),
    ],
)
def test_the_other_categories_answer(web: Cloud, path: str, query: str, status: int) -> None:
    reply = web.get(path=path, query=query)

    assert reply.status == status
    if status >= 400:
        assert isinstance(json.loads(reply.body), dict)


@pytest.mark.rule("I-07")
@pytest.mark.parametrize("path", ["/metadata/instance", "/metadata/versions"])
def test_the_other_categories_make_the_same_checks(web: Cloud, path: str) -> None:
    query = "api-version=2021-02-01"

    assert web.get(path=path, query=query, headers={}).status == 400
    assert web.get(path=path, query=query, headers={**METADATA, "x-forwarded-for": ("a",)}).status == 400
    assert web.get(path=path, query=f"{query}&{query}").status == 400


def test_a_second_set_is_another_world(web: Cloud) -> None:
    web.handle(CreateSet(seed="db", blueprint=Blueprint(name="db", count=1)))
    web.cause("restart", "web_0")

    reply = web.post(start(E1), "db_0", scope="db")

    assert reply.status == 400
    assert E1 in error_of(reply)
    assert web.events()[0]["EventStatus"] == "Scheduled"
