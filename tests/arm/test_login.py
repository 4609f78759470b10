"""Logging in: the endpoints of the cloud, and tokens."""

import base64
import json
from collections.abc import Mapping
from datetime import timedelta

import httpx2
import jwt
import pytest

from fairwarning.arm.context import TENANT
from fairwarning.arm.tokens import ACCESS, REFRESH, load_tokens, machine_token
from fairwarning.core.blueprint import Blueprint
from fairwarning.store.memory import MemoryStore
from tests.arm.arm_client import KEY, ONE, URL, ArmClient, WallClock, arm_client
from tests.fleet_harness import run

SERVICE_PRINCIPAL = {
    "grant_type": "client_credentials",
    "client_id": "dev",
    "client_secret": "dev",
    "scope": f"{URL}/.default",
}
TOKEN = "/adfs/oauth2/token"


@pytest.fixture
def client() -> ArmClient:
    return arm_client()


def ask(client: ArmClient, path: str, **form: str) -> httpx2.Response:
    return client.send("POST", path, form=form, token=None)


def opens(client: ArmClient, token: str) -> bool:
    return client.send("GET", f"{ONE}?api-version=2022-12-01", token=token).status_code == 200


def claims(token: str) -> Mapping[str, object]:
    """Return the claims of a token, without checking it, as clients do."""
    payload: Mapping[str, object] = jwt.decode(token, options={"verify_signature": False})
    return payload


@pytest.mark.parametrize(
    "version", [pytest.param("2022-09-01", id="az of today"), pytest.param("", id="no version")]
)
def test_the_cloud_describes_itself(client: ArmClient, version: str) -> None:
    document = client.send("GET", f"/metadata/endpoints?api-version={version}", token=None).json()

    assert document["name"] == "fairwarning"
    assert document["resourceManager"] == f"{URL}/"
    assert document["vmImageAliasDoc"] == f"{URL}/aliases.json"
    # Any other authority would make clients ask Azure itself whether it exists.
    assert document["authentication"]["loginEndpoint"] == f"{URL}/adfs"
    assert {"storage", "keyVaultDns", "sqlServerHostname", "acrLoginServer"} <= set(document["suffixes"])


def test_older_clients_are_given_the_shapes_they_know(client: ArmClient) -> None:
    several = client.send("GET", "/metadata/endpoints?api-version=2019-05-01", token=None).json()
    stack = client.send("GET", "/metadata/endpoints?api-version=2015-01-01", token=None).json()

    assert [one["name"] for one in several] == ["fairwarning"]
    assert set(stack) == {"galleryEndpoint", "graphEndpoint", "portalEndpoint", "authentication"}
    assert stack["authentication"]["audiences"] == [f"{URL}/"]


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/adfs/.well-known/openid-configuration", "/adfs/oauth2/token"),
        (f"/{TENANT}/v2.0/.well-known/openid-configuration", f"/{TENANT}/oauth2/v2.0/token"),
    ],
)
def test_an_authority_says_where_its_tokens_are(client: ArmClient, path: str, endpoint: str) -> None:
    document = client.send("GET", path, token=None).json()
    given = client.send(
        "POST", document["token_endpoint"].removeprefix(URL), form=SERVICE_PRINCIPAL, token=None
    ).json()

    assert document["token_endpoint"] == f"{URL}{endpoint}"
    assert opens(client, given["access_token"])
    assert client.send("GET", document["jwks_uri"].removeprefix(URL), token=None).json() == {"keys": []}


def test_who_asks_whether_the_authority_exists_is_told_that_it_does(client: ArmClient) -> None:
    document = client.send("GET", "/common/discovery/instance?api-version=1.1", token=None).json()

    where = document["tenant_discovery_endpoint"].removeprefix(URL)
    assert client.send("GET", where, token=None).status_code == 200


def test_a_service_principal_is_given_a_token_for_a_day(client: ArmClient) -> None:
    given = client.send("POST", TOKEN, form=SERVICE_PRINCIPAL, token=None).json()

    payload = claims(given["access_token"])
    assert (given["token_type"], given["expires_in"]) == ("Bearer", 86400)
    assert (payload["tid"], payload["aud"], payload["appid"]) == (TENANT, URL, "dev")
    assert set(given) == {"token_type", "expires_in", "ext_expires_in", "access_token"}


def test_the_first_version_of_the_token_endpoint_says_when_a_token_ends_and_what_it_is_for(
    client: ArmClient,
) -> None:
    form = {"grant_type": "client_credentials", "client_id": "dev", "client_secret": "dev"}
    resource = "https://management.core.windows.net/"

    given = ask(client, f"/{TENANT}/oauth2/token", **form, resource=resource).json()

    issued_at = int(client.clock.now.timestamp())
    assert opens(client, given.pop("access_token"))
    assert given == {
        "token_type": "Bearer",
        "expires_in": "86400",
        "ext_expires_in": "86400",
        "expires_on": str(issued_at + 86400),
        "not_before": str(issued_at),
        "resource": resource,
    }


@pytest.mark.parametrize("path", ["/adfs/oauth2/token", f"/{TENANT}/oauth2/v2.0/token"])
def test_all_other_token_endpoints_answer_with_numbers(client: ArmClient, path: str) -> None:
    given = client.send("POST", path, form=SERVICE_PRINCIPAL, token=None).json()

    assert given["expires_in"] == 86400
    assert "expires_on" not in given


def test_a_server_with_a_secret_gives_tokens_only_for_it() -> None:
    client = arm_client(secret="open-sesame")

    wrong = client.send("POST", TOKEN, form=SERVICE_PRINCIPAL, token=None)
    right = client.send("POST", TOKEN, form={**SERVICE_PRINCIPAL, "client_secret": "open-sesame"}, token=None)
    device = ask(client, "/adfs/oauth2/devicecode", client_id="az")

    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    assert opens(client, right.json()["access_token"])
    assert (device.status_code, device.json()["error"]) == (400, "unauthorized_client")


def test_tokens_given_before_a_secret_was_set_are_worth_nothing_behind_it() -> None:
    token = arm_client().tokens.make(URL)

    assert not opens(arm_client(secret="open-sesame"), token)


def test_a_person_logs_in_by_device_code_and_stays_logged_in(client: ArmClient) -> None:
    code = ask(client, "/adfs/oauth2/devicecode", client_id="az", scope="openid").json()
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    given = ask(client, TOKEN, grant_type=grant, device_code=code["device_code"], client_id="az").json()
    client.clock.advance(timedelta(days=30))
    again = ask(client, TOKEN, grant_type="refresh_token", refresh_token=given["refresh_token"]).json()

    who = json.loads(base64.urlsafe_b64decode(given["client_info"] + "=="))
    assert who["utid"] == TENANT
    assert claims(given["id_token"])["aud"] == "az"
    assert not opens(client, given["access_token"])
    assert opens(client, again["access_token"])


@pytest.mark.parametrize(
    ("form", "error"),
    [
        pytest.param({}, "unsupported_grant_type", id="nothing"),
        pytest.param({"grant_type": "password"}, "unsupported_grant_type", id="a password"),
        pytest.param({"grant_type": "refresh_token"}, "invalid_grant", id="no refresh token"),
        pytest.param({"grant_type": "device_code", "code": "x"}, "invalid_grant", id="a made-up code"),
    ],
)
def test_who_may_not_have_a_token_is_told_why(client: ArmClient, form: dict[str, str], error: str) -> None:
    response = ask(client, TOKEN, **form)

    assert response.status_code == 400
    assert response.json()["error"] == error
    assert response.json()["error_description"]


def test_an_access_token_is_no_refresh_token(client: ArmClient) -> None:
    response = ask(
        client, TOKEN, grant_type="refresh_token", refresh_token=client.tokens.make(URL, use=ACCESS)
    )

    assert response.json()["error"] == "invalid_grant"


def test_a_form_that_is_json_of_another_kind_is_no_failure(client: ArmClient) -> None:
    assert client.send("POST", TOKEN, [1, 2], token=None).status_code == 400


def test_tokens_outlive_the_server_that_made_them() -> None:
    store, wall = MemoryStore(), WallClock()
    before = run(load_tokens(store, wall, None)).make(URL, use=REFRESH)

    after = run(load_tokens(store, wall, None))
    stranger = run(load_tokens(MemoryStore(), wall, None))

    assert after.is_valid(before, REFRESH)
    assert not stranger.is_valid(before, REFRESH)


def test_the_key_is_not_printed() -> None:
    assert KEY not in repr(arm_client().tokens)


def test_a_machine_s_token_is_accepted_and_names_its_machine(client: ArmClient) -> None:
    client.fleet.make(Blueprint(name="web", count=1))
    given = machine_token(client.tokens, client.fleet.engine, client.fleet.ref("web_0"), f"{URL}/")

    token = given["access_token"]
    assert isinstance(token, str)
    assert opens(client, token)
    assert claims(token)["sub"] == "web/web_0"
    # Clients of the metadata service expect text where others expect numbers.
    assert all(isinstance(value, str) for value in given.values())
