"""Golden files of the operator API: every route, and the journal lines that requests write."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from fairwarning.core.document.render import Json
from fairwarning.operator.routes import ROUTES
from fairwarning.store.sqlite import DATABASE
from tests.fixtures.release import FIRST
from tests.golden.comparison import Golden, answer, pretty
from tests.running import Running

HELD, HOLDING = FIRST.contents.held, FIRST.contents.holding

#: A path for each GET route.
READING = {
    "/fleet/v1/machines": "/machines",
    "/fleet/v1/machines/{name:path}": "/machines/lab/web/web_1",
    "/fleet/v1/scopes": "/scopes",
    "/fleet/v1/scopes/{name:path}": "/scopes/lab/web",
    "/fleet/v1/events": "/events",
    "/fleet/v1/events/{id}": f"/events/{HELD.lower()}",
    "/fleet/v1/hold": "/hold",
    "/fleet/v1/hosts": "/hosts",
    "/fleet/v1/hosts/{name}": "/hosts/host-app-2-0",
    "/fleet/v1/maintenances": "/maintenances",
    "/fleet/v1/maintenances/{id}": "/maintenances/host:host-app-2-0:C7061BAC",
    "/fleet/v1/causes": "/causes",
    "/fleet/v1/rollouts": "/rollouts",
    "/fleet/v1/walks": "/walks",
    "/fleet/v1/clock": "/clock",
    "/fleet/v1/arm": "/arm",
    "/fleet/v1/history": "/history?limit=1000",
    "/fleet/v1/openapi.json": "/openapi.json",
}
#: Routes outside ``/fleet/v1``, and the feed, which does not end.
OTHERS = {"/healthz", "/readyz", "/metrics", "/fleet/v1/feed", "/fleet/v1/nodes"}

#: A request for each route that changes something, and a few invalid requests.
CHANGING: tuple[tuple[str, str, str, Json], ...] = (
    ("cause", "POST", "/events", {"cause": "restart", "machines": ["web/web_0"], "by": "alice"}),
    ("cause on a host", "POST", "/events", {"cause": "freeze", "host": "host-app-2-0", "notice": "1m"}),
    ("cause nobody sees", "POST", "/events", {"cause": "host-reboot", "machines": ["spot"]}),
    ("cause on nobody", "POST", "/events", {"cause": "restart", "machines": ["nobody"]}),
    ("cause on two", "POST", "/events", {"cause": "restart", "machines": ["web_0"]}),
    ("cause nobody knows", "POST", "/events", {"cause": "sneeze", "machines": ["db"]}),
    ("cause against the rules", "POST", "/events", {"cause": "evict", "machines": ["db"]}),
    ("approve", "POST", f"/events/{HOLDING}/approve", {"by": "alice"}),
    ("approve nothing", "POST", "/events/C7061BAC/approve", {}),
    ("cancel", "POST", "/events/8A08A939-56B1-F297-F2E8-1FF50EF5E4F2/cancel", {}),
    ("cancel what started", "POST", f"/events/{HELD}/cancel", {}),
    ("power", "PUT", "/machines/app-2/power", {"power": "stopped"}),
    ("fault", "PUT", "/machines/app-2/fault", {"fault": "410"}),
    ("fault healed", "DELETE", "/machines/app-2/fault", None),
    ("make", "POST", "/scopes", {"name": "new", "count": 2, "terminate_notice": "5m"}),
    ("make again", "POST", "/scopes", {"name": "new"}),
    ("make what cannot be", "POST", "/scopes", {"name": "a b"}),
    ("grow", "POST", "/scopes/new/machines", {"count": 1}),
    ("change", "PATCH", "/scopes/new", {"terminate_notice": "6m", "approvals": {"user_redeploy": True}}),
    ("upgrade", "POST", "/scopes/new/upgrade", {"machines": ["new_0"]}),
    ("hold", "PUT", "/hold", {"reason": "storage"}),
    ("hold a host", "PUT", "/hosts/host-app-2-0/hold", {}),
    ("postpone a host", "POST", "/hosts/host-app-2-0/postpone", {"until": "2026-11-16T13:00Z"}),
    ("postpone an event", "POST", "/events/C7061BAC/postpone", {"until": "+1h"}),
    ("complete a host", "POST", "/hosts/host-app-2-0/complete", {}),
    ("cancel a host", "POST", "/hosts/host-app-2-0/cancel", {}),
    (
        "maintain",
        "POST",
        "/maintenances",
        {"cause": "host-reboot", "host": "host-app-2-0", "at": "Thu 02:00", "key": "CHG-1"},
    ),
    ("maintain once", "POST", "/maintenances", {"cause": "freeze", "host": "host-app-2-0", "at": "+1h"}),
    ("unhold a host", "DELETE", "/hosts/host-app-2-0/hold", None),
    ("unhold", "DELETE", "/hold", None),
    ("cancel a date", "POST", "/hosts/host-app-2-0/cancel", {}),
    ("complete", "POST", "/events/C7061BAC/complete", {}),
    ("fail", "POST", "/events/C7061BAC/fail", {"machine": "db", "reason": "why"}),
    ("move", "PATCH", "/machines/app-2", {"host": "elsewhere"}),
    ("walk", "POST", "/walks", {"scope": "web", "cause": "host-reboot", "notice": "2m"}),
    ("walk again", "POST", "/walks", {"scope": "web"}),
    ("walk stopped", "DELETE", "/walks/web", None),
    ("walk stopped again", "DELETE", "/walks/web", None),
    ("delete machine", "DELETE", "/machines/new_2", None),
    ("delete machine at once", "DELETE", "/machines/new_1?force=true", None),
    ("delete set", "DELETE", "/scopes/pool", None),
    ("advance", "POST", "/clock/advance", {"by": "10s", "who": "alice"}),
    ("next", "POST", "/clock/next", {}),
    ("speed", "PUT", "/clock/speed", {"speed": 60}),
    ("unknown member", "POST", "/clock/advance", {"by": "10s", "at": "once"}),
    ("no JSON object", "POST", "/clock/advance", [1]),
    ("no such route", "GET", "/nothing", None),
    ("no such method", "DELETE", "/clock", None),
)


def test_every_route_that_reads(shared: Running, golden: Golden) -> None:
    assert READING.keys() | OTHERS == {route.path for route in ROUTES if route.method == "GET"}
    texts = {name(path): answer(shared.fleet("GET", path)) for path in READING.values()}
    texts["openapi.json"] = pretty(without_prose(shared.fleet("GET", "/openapi.json").json()))
    texts["history of one event"] = answer(shared.fleet("GET", f"/history?event={HELD}&limit=1"))
    texts["healthz"] = answer(shared.operator.get("/healthz"))
    texts["readyz"] = answer(shared.operator.get("/readyz"))
    texts["feed"] = feed(shared, lines=14)

    golden("operator/reading", texts)


def test_metrics_without_their_help_texts(server: Running, golden: Golden) -> None:
    # A machine without an event: a first read is stored a little later, as a journal line.
    server.poll("web/web_0")
    server.poll("web/web_0", version="2016-01-01")
    # Open connections are counted, this one among them.
    lines = server.operator.get("/metrics").text.splitlines()

    golden(
        "operator/metrics", {"metrics": "\n".join(line for line in lines if not line.startswith("# HELP"))}
    )


def test_every_route_that_changes_something(server: Running, data: Path, golden: Golden) -> None:
    tried = {(method, path.partition("?")[0]) for _, method, path, _ in CHANGING}
    assert len(tried) >= len([route for route in ROUTES if route.method != "GET"])
    last = len(server.fleet("GET", "/history?limit=1000").json()["history"])

    texts = {what: answer(server.fleet(method, path, body)) for what, method, path, body in CHANGING}
    texts["history"] = history_since(server, last)

    golden("operator/doing", texts)
    golden("operator/journal", {"lines": "\n".join(journal(data, after=111))})


def without_prose(value: Json) -> Json:
    """Return an OpenAPI document without its summaries and descriptions, whose wording may change."""
    if isinstance(value, list):
        return [without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    prose = {key for key in ("summary", "description") if isinstance(value.get(key), str)}
    return {key: without_prose(member) for key, member in value.items() if key not in prose}


def name(path: str) -> str:
    return path.strip("/").partition("?")[0].replace("/", " ").replace(HELD.lower(), "one")


def history_since(server: Running, count: int) -> str:
    lines = server.fleet("GET", "/history?limit=1000").json()["history"][count:]
    return "\n".join(
        " | ".join(str(line[key]) for key in ("at", "kind", "type", "scope", "resources", "by", "reason"))
        for line in lines
    )


def journal(data: Path, after: int) -> Iterator[str]:
    """Yield the stored journal lines."""
    query = "SELECT seq, at, scope, version, kind, event, body FROM journal WHERE seq > ? ORDER BY seq"
    with closing(sqlite3.connect(data / DATABASE)) as database:
        for row in database.execute(query, (after,)):
            yield " | ".join(map(str, row))


def feed(server: Running, lines: int) -> str:
    """Return the first lines of the feed."""
    with server.operator.stream("GET", "/fleet/v1/feed?after=0") as response:
        sent = response.iter_lines()
        return "\n".join([response.headers["content-type"], *(next(sent) for _ in range(lines))])


def test_refused_access(shared: Running, golden: Golden) -> None:
    texts = {
        "foreign host": answer(shared.operator.get("/fleet/v1/clock", headers={"Host": "evil.example"})),
        "foreign origin": answer(
            shared.operator.post("/fleet/v1/clock/next", headers={"Origin": "http://evil.example"})
        ),
        "wrong Last-Event-ID": answer(shared.operator.get("/fleet/v1/feed", headers={"Last-Event-ID": "x"})),
    }

    golden("operator/access", texts)
