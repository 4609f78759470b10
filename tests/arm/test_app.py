"""The checks of a request, their order, and the errors in Azure's words."""

import base64
import json
import logging
import re
from collections import Counter
from datetime import timedelta

import httpx2
import pytest

from fairwarning.arm import app as arm
from fairwarning.arm.context import SUBSCRIPTION, TENANT, ArmContext
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.document.render import Json
from tests.arm.arm_client import ONE, URL, ArmClient, arm_client

VERSIONED = "api-version=2022-12-01"
COMPUTE = f"{ONE}/providers/Microsoft.Compute"


@pytest.fixture
def client() -> ArmClient:
    return arm_client()


def claims(response: httpx2.Response) -> Json:
    """Return the claims of a challenge, as clients read them."""
    header = response.headers["www-authenticate"]
    encoded = header.partition('claims="')[2].rstrip('"')
    asked: Json = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    return asked


def test_a_request_without_a_token_is_told_where_tokens_come_from(client: ArmClient) -> None:
    response = client.send("GET", f"/subscriptions?{VERSIONED}", token=None)

    assert response.status_code == 401
    assert response.json()["error"]["code"] == "AuthenticationFailed"
    assert response.headers["www-authenticate"].startswith(f'Bearer authorization_uri="{URL}/adfs"')


def test_a_token_of_another_server_is_answered_with_the_challenge_that_makes_az_fetch_a_new_one(
    client: ArmClient,
) -> None:
    foreign = arm_client(key="the key of another server, also quite long").tokens.make(URL)

    response = client.send("GET", f"/subscriptions?{VERSIONED}", token=foreign)

    assert response.status_code == 401
    assert response.json()["error"]["code"] == "InvalidAuthenticationToken"
    assert 'error="insufficient_claims"' in response.headers["www-authenticate"]
    not_before = str(int(client.clock.now.timestamp()))
    assert claims(response) == {"access_token": {"nbf": {"essential": True, "value": not_before}}}


def test_a_token_that_has_run_out_gets_the_same_challenge(client: ArmClient) -> None:
    token = client.tokens.make(URL)
    client.clock.advance(timedelta(hours=23))
    before = client.send("GET", f"/subscriptions?{VERSIONED}", token=token)
    client.clock.advance(timedelta(hours=1))

    after = client.send("GET", f"/subscriptions?{VERSIONED}", token=token)

    assert before.status_code == 200
    assert after.status_code == 401
    assert claims(after)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("dev", id="no token at all"),
        pytest.param("a.b.c", id="three words with dots"),
        pytest.param("é", id="letters that no token has"),
        pytest.param("eyJhbGciOiJub25lIn0.eyJ1c2UiOiJhY2Nlc3MifQ.", id="a token without a signature"),
    ],
)
def test_what_is_no_token_of_ours_is_challenged(client: ArmClient, token: str) -> None:
    response = client.send("GET", f"/subscriptions?{VERSIONED}", token=token)

    assert response.status_code == 401
    assert claims(response)


@pytest.mark.parametrize("use", ["refresh", "device", "identity"])
def test_only_an_access_token_is_accepted(client: ArmClient, use: str) -> None:
    token = client.tokens.make(URL, use=use)

    assert client.send("GET", f"/subscriptions?{VERSIONED}", token=token).status_code == 401


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("", "MissingApiVersionParameter", id="no version"),
        pytest.param("?api-version=", "MissingApiVersionParameter", id="an empty version"),
        pytest.param("?api-version=latest", "InvalidApiVersionParameter", id="a word"),
        pytest.param("?api-version=2022-1-1", "InvalidApiVersionParameter", id="a date of another form"),
        pytest.param("?api-version=2022-12-01%0A", "InvalidApiVersionParameter", id="a line break behind it"),
    ],
)
def test_the_api_version_must_be_a_date(client: ArmClient, query: str, code: str) -> None:
    assert client.refused("GET", f"/subscriptions{query}") == (400, code)


@pytest.mark.parametrize("version", ["2015-01-01", "2023-10-01-preview", "2099-12-31"])
def test_any_date_is_a_version_that_is_served(client: ArmClient, version: str) -> None:
    assert client.get("/subscriptions", version)


@pytest.mark.parametrize(
    "path",
    [
        f"{COMPUTE}/skus",
        f"{COMPUTE}/skus/",
        f"{ONE}//providers//Microsoft.Compute//skus",
        f"/SUBSCRIPTIONS/{SUBSCRIPTION}/PROVIDERS/microsoft.compute/SKUS",
        f"{ONE}/providers/Microsoft%2ECompute",
    ],
)
def test_paths_are_read_as_clients_write_them(client: ArmClient, path: str) -> None:
    assert client.get(path)


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        pytest.param("GET", "/nowhere", (404, "NotFound"), id="a path that leads nowhere"),
        pytest.param("PUT", "/subscriptions", (405, "HttpMethodNotAllowed"), id="a method without a route"),
        pytest.param("GET", f"/subscriptions/{TENANT}", (404, "SubscriptionNotFound"), id="a subscription"),
        pytest.param(
            "GET", f"/subscriptions/{TENANT}/what/ever", (404, "SubscriptionNotFound"), id="things in another"
        ),
        pytest.param(
            "GET", f"{ONE}/providers/Contoso.Bikes", (404, "InvalidResourceNamespace"), id="a provider"
        ),
        pytest.param(
            "GET", f"{ONE}/providers/a%2Fb", (400, "InvalidResourceName"), id="a name with a slash in it"
        ),
        pytest.param(
            "GET", f"{ONE}/providers/a%0D%0Ab", (400, "InvalidResourceName"), id="a name with a line break"
        ),
    ],
)
def test_what_is_not_there_is_said_in_azure_s_words(
    client: ArmClient, method: str, path: str, refusal: tuple[int, str]
) -> None:
    assert client.refused(method, f"{path}?{VERSIONED}") == refusal


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"{", id="half an object"),
        pytest.param(b'{"a": NaN}', id="a number that is none"),
        pytest.param(b"\xff\xfe", id="bytes that are no text"),
        pytest.param(b"[" * 100_000, id="a very deep list"),
        pytest.param(rb'{"a": "\ud800"}', id="half a character"),
    ],
)
def test_a_body_that_is_no_json_is_refused(client: ArmClient, content: bytes) -> None:
    path = f"{ONE}/providers/Microsoft.Compute/register?{VERSIONED}"
    response = client.send("POST", path, content=content)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "InvalidRequestContent"


def test_a_template_may_be_written_as_az_passes_it_on(client: ArmClient) -> None:
    path = f"{ONE}/resourceGroups/fairwarning/providers/Microsoft.Resources/deployments/one"
    template = b'{"contentVersion": "1.0.0.0", "resources": [], /* none yet */}'
    content = b'{"properties": {"mode": "Incremental", template: ' + template + b"}}"

    deployed = client.send("PUT", f"{path}?{VERSIONED}", content=content)
    elsewhere = client.send("PUT", f"{ONE}/resourceGroups/lab?{VERSIONED}", content=content)

    assert deployed.status_code in (200, 201), deployed.text
    assert elsewhere.status_code == 400


def test_a_body_that_is_too_large_is_not_read(client: ArmClient) -> None:
    path = f"{ONE}/providers/Microsoft.Compute/register?{VERSIONED}"
    response = client.send("POST", path, content=b" " * (arm.MOST_BYTES + 1))

    assert response.status_code == 413
    assert response.json()["error"]["code"] == "RequestContentTooLarge"


def test_a_head_is_answered_like_a_get_without_its_body(client: ArmClient) -> None:
    response = client.send("HEAD", f"/subscriptions?{VERSIONED}")

    assert (response.status_code, response.content) == (200, b"")


def test_every_answer_has_an_id_of_its_own(client: ArmClient) -> None:
    answers = [client.send("GET", path) for path in ("/subscriptions", "/nowhere", "/metadata/endpoints")]

    assert len({answer.headers["x-ms-request-id"] for answer in answers}) == 3


def test_a_failure_of_ours_is_logged_and_tells_nothing_about_itself(
    client: ArmClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(context: ArmContext, call: ArmRequest) -> ArmResponse:
        raise RuntimeError("the shelf fell down")

    monkeypatch.setattr(arm, "ROUTES", (ArmRoute("GET", "/broken", broken),))
    with caplog.at_level(logging.CRITICAL, "fairwarning.arm"):
        response = client.send("GET", f"/broken?{VERSIONED}")

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "InternalServerError"
    assert "shelf" not in response.text


def test_links_lead_back_the_way_the_client_came(client: ArmClient) -> None:
    response = client.send("GET", "/metadata/endpoints", url="https://azure.lan:9443")

    assert response.json()["resourceManager"] == "https://azure.lan:9443/"


def test_a_host_that_is_no_host_is_not_repeated(client: ArmClient) -> None:
    response = client.send("GET", "/metadata/endpoints", headers={"Host": 'a"b'})

    assert response.json()["resourceManager"] == f"{URL}/"


def test_no_two_routes_answer_to_the_same_path() -> None:
    templates = Counter(
        (route.method, re.sub(r"\{\w+\}", "{}", route.template).lower()) for route in arm.ROUTES
    )

    assert [route for route, times in templates.items() if times > 1] == []


# -- look-ups


def test_there_is_one_tenant_with_one_subscription(client: ArmClient) -> None:
    tenants, subscriptions = client.get("/tenants"), client.get("/subscriptions")

    assert isinstance(tenants, dict)
    assert isinstance(subscriptions, dict)
    assert [one["tenantId"] for one in _rows(tenants)] == [TENANT]
    assert [one["subscriptionId"] for one in _rows(subscriptions)] == [SUBSCRIPTION]
    assert client.get(ONE) == _rows(subscriptions)[0]


def test_sizes_can_be_had_for_one_region(client: ArmClient) -> None:
    response = client.send("GET", f"{COMPUTE}/skus?api-version=2019-04-01&$filter=location eq 'EastUS'")

    assert {tuple(one["locations"]) for one in response.json()["value"]} == {("eastus",)}


@pytest.mark.parametrize(
    ("alias", "system"), [("UbuntuLTS", "Linux"), ("Ubuntu2204", "Linux"), ("Win2022Datacenter", "Windows")]
)
def test_an_alias_leads_to_an_image_that_says_what_it_runs(
    client: ArmClient, alias: str, system: str
) -> None:
    aliases = client.send("GET", "/aliases.json", token=None).json()["outputs"]["aliases"]["value"]
    image = aliases[system][alias]
    offers = f"{COMPUTE}/locations/westeurope/publishers/{image['publisher']}/artifacttypes/vmimage/offers"
    versions = f"{offers}/{image['offer']}/skus/{image['sku']}/versions"

    (newest,) = client.send("GET", f"{versions}?$top=1&$orderby=name desc&api-version=2024-07-01").json()
    document = client.send("GET", f"{versions}/{newest['name']}?api-version=2024-07-01").json()

    assert document["properties"]["osDiskImage"]["operatingSystem"] == system
    assert document["id"] == newest["id"]


def test_images_can_be_found_step_by_step(client: ArmClient) -> None:
    publishers = f"{COMPUTE}/locations/westeurope/publishers"
    offers = f"{publishers}/canonical/artifacttypes/vmimage/offers"

    assert "Canonical" in _names(client.get(publishers))
    assert "UbuntuServer" in _names(client.get(offers))
    assert _names(client.get(f"{offers}/UbuntuServer/skus")) == ["18.04-LTS"]


@pytest.mark.rule("I-13")
def test_the_catalog_lists_the_version_that_machines_run(client: ArmClient) -> None:
    offers = f"{COMPUTE}/locations/westeurope/publishers/canonical/artifacttypes/vmimage/offers"

    versions = client.get(f"{offers}/UbuntuServer/skus/18.04-LTS/versions")

    assert _names(versions) == ["18.04.202305220"]


@pytest.mark.parametrize("path", ["vmSizes", "usages"])
def test_regions_say_what_they_have(client: ArmClient, path: str) -> None:
    document = client.get(f"{COMPUTE}/locations/westeurope/{path}")

    assert isinstance(document, dict)
    assert _rows(document)


def _rows(document: dict[str, Json]) -> list[dict[str, Json]]:
    rows = document["value"]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


def _names(document: Json) -> list[Json]:
    assert isinstance(document, list)
    return [row["name"] for row in document if isinstance(row, dict)]
