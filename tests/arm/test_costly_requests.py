"""Limits on the size of a request, checked before its content."""

import pytest

from fairwarning.arm.app import (
    DEEPEST,
    LONGEST_URL,
    MOST_BYTES,
    MOST_FIELDS,
    MOST_PUBLIC_BYTES,
    MOST_RESOURCE_BYTES,
)
from fairwarning.arm.resources import lists
from fairwarning.arm.templates.jsonc import to_strict_json
from tests.arm.arm_client import ONE, ArmClient, arm_client
from tests.arm.azure import Azure

GROUP = f"{ONE}/resourceGroups/lab"
VERSION = "?api-version=2022-12-01"
LOGIN = "/adfs/oauth2/token"


def refused(client: ArmClient, path: str, content: bytes, token: str | None = "") -> tuple[int, str]:
    response = client.send("PUT", f"{path}{VERSION}", content=content, token=token)
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize(
    "path",
    [
        GROUP,
        f"{GROUP}/providers/Microsoft.Network/virtualNetworks/net",
        f"{GROUP}/providers/Microsoft.Compute/virtualMachines/one",
        f"{GROUP}/providers/Microsoft.Resources/deployments/one",
    ],
)
@pytest.mark.parametrize("levels", [DEEPEST + 1, 900, 100_000])
def test_a_body_that_nests_too_deeply_is_refused(path: str, levels: int) -> None:
    client = arm_client()
    client.send("PUT", f"{GROUP}{VERSION}", {"location": "westeurope"})
    nested = b'{"location": "westeurope", "properties": ' + b"[" * levels + b"]" * levels + b"}"

    assert refused(client, path, nested) == (400, "InvalidRequestContent")


@pytest.mark.parametrize(
    ("path", "most"),
    [(GROUP, MOST_RESOURCE_BYTES), (f"{GROUP}/providers/Microsoft.Resources/deployments/a", MOST_BYTES)],
    ids=["a resource", "a template"],
)
def test_a_body_that_is_large_or_has_very_many_values_is_refused(path: str, most: int) -> None:
    many = b"[" + b"1," * (most // 16) + b"1]"

    assert refused(arm_client(), path, many) == (400, "InvalidRequestContent")
    assert refused(arm_client(), path, b" " * (most + 1)) == (413, "RequestContentTooLarge")


@pytest.mark.parametrize("path", [f"{ONE}/{'x' * LONGEST_URL}", f"{ONE}?x={'x' * LONGEST_URL}&"])
def test_an_address_that_is_too_long_is_refused(path: str) -> None:
    assert refused(arm_client(), path, b"{}") == (414, "RequestUriTooLong")


def test_who_has_no_token_sends_no_large_bodies() -> None:
    client = arm_client()

    response = client.send("POST", LOGIN, content=b"x" * (MOST_PUBLIC_BYTES + 1), token=None)

    assert response.status_code == 413
    assert refused(client, GROUP, b"x" * 5_000_000, token=None) == (401, "AuthenticationFailed")


def test_a_form_of_very_many_fields_is_refused() -> None:
    form = {f"f{number}": "" for number in range(MOST_FIELDS + 1)}

    response = arm_client().send("POST", LOGIN, form=form, token=None)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "InvalidRequestContent"


def test_a_filter_of_blanks_is_read_in_no_time() -> None:
    blanks = "x" + "+" * 300_000 + "x"

    status, code, _ = Azure(lists.ROUTES).refused("GET", f"{ONE}/resources?$filter={blanks}")

    assert (status, code) == (400, "InvalidFilterInQueryString")


def test_a_string_that_ends_in_half_an_escape_is_read_in_no_time() -> None:
    to_strict_json('"' + '\\"' * 300_000 + "\\")
