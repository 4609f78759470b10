"""The history says whom the token of a request names."""

import pytest

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.arm.tokens import LONGEST_SUBJECT
from fairwarning.core.changes import MachineChanged, ScopeMade
from tests.arm.arm_client import URL, ArmClient, arm_client

BOX = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fairwarning/providers"
    "/Microsoft.Compute/virtualMachines/box?api-version=2024-07-01"
)


@pytest.fixture
def client() -> ArmClient:
    return arm_client()


def makers(client: ArmClient) -> set[str]:
    """Return who has made scopes and machines."""
    changes = (entry.change for entry in client.fleet.journal())
    return {change.by for change in changes if isinstance(change, ScopeMade | MachineChanged)}


def test_a_change_is_made_by_whom_the_token_names(client: ArmClient) -> None:
    token = client.tokens.make(URL, subject="pipeline")

    client.send("PUT", BOX, {"location": "westeurope"}, token=token)

    assert makers(client) == {"management:pipeline"}


def test_the_identity_of_a_machine_is_a_name_like_others(client: ArmClient) -> None:
    token = client.tokens.make(URL, subject="web/web_0")

    client.send("PUT", BOX, {"location": "westeurope"}, token=token)

    assert makers(client) == {"management:web/web_0"}


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        pytest.param("a\nb\u202e", "a\\nb\\u202e", id="hidden characters are shown as escapes"),
        pytest.param("x" * 1000, "x" * LONGEST_SUBJECT, id="a long name is cut off"),
        pytest.param("", "management", id="a token may name nobody"),
    ],
)
def test_a_name_is_short_and_visible(client: ArmClient, subject: str, shown: str) -> None:
    token = client.tokens.make(URL, subject=subject)

    client.send("PUT", BOX, {"location": "westeurope"}, token=token)

    assert makers(client) == {shown if shown == "management" else f"management:{shown}"}
