"""Golden files of the metadata API: documents in every api-version, instance data, errors, approvals."""

from collections.abc import Iterator

import httpx2

from fairwarning.core.document.render import Json
from fairwarning.core.document.versions import EVENT_VERSIONS, IMDS_VERSIONS, PREVIEW_VERSION
from tests.fixtures.release import FIRST
from tests.golden.comparison import Golden, answer, pretty
from tests.running import EVENTS, NEWEST, Running

HELD, HOLDING = FIRST.contents.held, FIRST.contents.holding

#: A machine of every scope that has events.
WARNED = (
    "db/db", "batch/batch", "cache/cache", "app/app-0", "web/web_0", "shop.zone1/shop_0", "shop.zone2/shop_1",
    "cloud-service/FrontEnd_IN_0", "lab/web/web_0", "lab/doomed/doomed", "lab/solo/solo",
)  # fmt: skip
HEADERS = ("etag", "date", "retry-after", "allow", "server", "connection")
INSTANCE = "/metadata/instance"
REQUESTS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("no header", "GET", f"{EVENTS}?api-version={NEWEST}", {}),
    (
        "forwarded",
        "GET",
        f"{EVENTS}?api-version={NEWEST}",
        {"Metadata": "true", "X-Forwarded-For": "10.0.0.1"},
    ),
    ("no version", "GET", EVENTS, {"Metadata": "true"}),
    ("version of tomorrow", "GET", f"{EVENTS}?api-version=2099-01-01", {"Metadata": "true"}),
    ("version that is none", "GET", f"{EVENTS}?api-version=newest", {"Metadata": "true"}),
    (
        "version given twice",
        "GET",
        f"{EVENTS}?api-version={NEWEST}&api-version={NEWEST}",
        {"Metadata": "true"},
    ),
    ("method", "PUT", f"{EVENTS}?api-version={NEWEST}", {"Metadata": "true"}),
    ("wait that is none", "GET", f"{EVENTS}?api-version={NEWEST}&wait=soon", {"Metadata": "true"}),
    ("path", "GET", "/metadata/nothing", {"Metadata": "true"}),
    ("instance without header", "GET", f"{INSTANCE}?api-version=2021-02-01", {}),
    ("instance without version", "GET", INSTANCE, {"Metadata": "true"}),
    (
        "instance without element",
        "GET",
        f"{INSTANCE}/compute/none?api-version=2021-02-01",
        {"Metadata": "true"},
    ),
    ("leaf as JSON", "GET", f"{INSTANCE}/compute/name?api-version=2021-02-01", {"Metadata": "true"}),
    (
        "token without resource",
        "GET",
        "/metadata/identity/oauth2/token?api-version=2018-02-01",
        {"Metadata": "true"},
    ),
)
BODIES: tuple[tuple[str, bytes], ...] = (
    ("nothing", b""),
    ("no JSON", b"{"),
    ("no object", b"[]"),
    ("no requests", b'{"StartRequests": []}'),
    ("unknown event", b'{"StartRequests": [{"EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]}'),
    ("event of another scope", b'{"StartRequests": [{"EventId": "%s"}]}' % HOLDING.encode()),
    ("approved before", b'{"StartRequests": [{"EventId": "%s"}]}' % HELD.encode()),
)


def test_the_document_in_every_version(shared: Running, golden: Golden) -> None:
    golden(
        "metadata/events",
        {
            version: "\n".join(
                f"{machine} {etag(reply := shared.poll(machine, version))}\n{reply.text}\n"
                for machine in WARNED
            )
            for version in (*EVENT_VERSIONS, PREVIEW_VERSION)
        },
    )


def etag(reply: httpx2.Response) -> str:
    return f"{reply.status_code} {reply.headers['content-type']} ETag {reply.headers.get('etag')}"


def test_instance_metadata(shared: Running, golden: Golden) -> None:
    newest = IMDS_VERSIONS[-1]
    path = f"{INSTANCE}?api-version={newest}"
    texts = {machine.replace("/", "-"): answer(shared.ask(machine, path)) for machine in WARNED}
    texts["what each version adds"] = "\n".join(differences(shared, "lab/solo/solo"))
    texts["one element as text"] = answer(
        shared.ask("db/db", f"{INSTANCE}/compute/vmId?api-version={newest}&format=text")
    )
    texts["one branch as text"] = answer(
        shared.ask("db/db", f"{INSTANCE}/compute?api-version={newest}&format=text")
    )
    texts["versions"] = answer(shared.ask("db/db", "/metadata/versions"))
    texts["root"] = answer(shared.ask("db/db", f"/metadata?api-version={newest}"))
    token = shared.ask(
        "db/db", "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://x"
    ).json()
    texts["members of a token"] = pretty([*token])
    attested = shared.ask("db/db", f"/metadata/attested/document?api-version={newest}").json()
    texts["members of an attested document"] = pretty([*attested])

    golden("metadata/instance", texts)


def differences(server: Running, machine: str) -> Iterator[str]:
    """Yield the values that each api-version adds and removes."""
    before: set[str] = set()
    for version in IMDS_VERSIONS:
        now = set(leaves(server.ask(machine, f"{INSTANCE}?api-version={version}").json()))
        yield version
        yield from (f"  + {leaf}" for leaf in sorted(now - before))
        yield from (f"  - {leaf}" for leaf in sorted(before - now))
        before = now


def leaves(value: Json, path: str = "") -> Iterator[str]:
    """Yield every value of a document with its path."""
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}[{number}]")
    else:
        yield f"{path} = {value!r}"


def test_error_responses(shared: Running, golden: Golden) -> None:
    texts = {
        what: answer(shared.ask("db/db", path, method=method, headers=headers), *HEADERS)
        for what, method, path, headers in REQUESTS
    }

    golden("metadata/refusals", texts)


def test_responses_to_approvals(server: Running, golden: Golden) -> None:
    url = f"{EVENTS}?api-version={NEWEST}"
    texts = {what: answer(sent(server, "shop.zone1/shop_0", url, body), *HEADERS) for what, body in BODIES}
    texts["approved"] = answer(server.approve("shop.zone2/shop_1", HOLDING), *HEADERS)
    texts["the document then"] = server.poll("shop.zone2/shop_1").text
    unchanged = {"Metadata": "true", "If-None-Match": '"3"'}
    texts["nothing new"] = answer(server.ask("shop.zone2/shop_1", url, headers=unchanged), *HEADERS)
    server.fleet("PUT", "/machines/db/fault", {"fault": "429"})
    texts["too many requests"] = answer(server.poll("db/db"), *HEADERS)

    golden("metadata/approvals", texts)


def sent(server: Running, machine: str, path: str, body: bytes) -> httpx2.Response:
    """Send the body of an approval unchanged, valid or not."""
    url = f"{server.endpoint(machine)}{path}"
    return server.guests.post(url, content=body, headers={"Metadata": "true"})
