"""Everything stored besides scopes has one kind, and each kind says who may write it."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairwarning
from fairwarning.arm.network import STORED
from fairwarning.core.inventory import InventoryRecord, InventoryVersion, ReplacedInventory
from fairwarning.core.model import EventId, VmName
from fairwarning.core.stored.codecs import Operation
from fairwarning.core.stored.kinds import (
    ENDED_SESSION,
    FIRST_READS,
    INVENTORY,
    KINDS,
    OPERATION,
    SERVICE_KINDS,
    SESSIONS_ENDED,
    StoredKind,
    UnknownKindError,
    kind_name,
    kind_of,
    service_kind_of,
)
from tests.fixtures.release import RELEASES, KeptRelease

NOON = datetime(2026, 11, 16, 12, 0, 0, 250, tzinfo=UTC)

#: Names that could be taken for a part of another kind's keys.
NAMES = st.sampled_from(
    [
        "a",
        "web_0",
        "extensions",
        "userdata",
        "rollingupgrade",
        "virtualmachines",
        "default",
        "a:b",
        "\u00fc\n",
        "*",
    ]
) | st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=5)


@st.composite
def keys(draw: st.DrawFn, kinds: tuple[StoredKind, ...]) -> tuple[StoredKind, str]:
    """Return a kind, and a key of it."""
    kind = draw(st.sampled_from(kinds))
    first, *rest = draw(st.sampled_from(kind.keys)).replace("**", "*/*/*").split("*")
    return kind, first + "".join(draw(NAMES) + part for part in rest)


@given(keys(KINDS))
def test_a_key_has_exactly_one_kind(drawn: tuple[StoredKind, str]) -> None:
    kind, key = drawn

    assert [other.name for other in KINDS if other.has(key)] == [kind.name]
    assert kind_of(key) is kind


@given(keys(SERVICE_KINDS))
def test_a_key_of_the_service_has_exactly_one_kind(drawn: tuple[StoredKind, str]) -> None:
    kind, key = drawn

    assert [other.name for other in SERVICE_KINDS if other.has(key)] == [kind.name]
    assert service_kind_of(key) is kind


def test_every_kind_has_a_name_of_its_own_and_a_module_with_its_rules() -> None:
    folder = Path(fairwarning.__file__).parent
    kinds = KINDS + SERVICE_KINDS

    assert len({kind.name for kind in kinds}) == len(kinds)
    modules = {kind.rules: folder.joinpath(*kind.rules.split(".")).with_suffix(".py") for kind in kinds}
    assert [rules for rules, path in modules.items() if not path.exists()] == []


def test_a_request_needs_an_action_to_write_a_value_of_the_state_and_writes_none_of_the_service() -> None:
    assert [kind.name for kind in KINDS if kind.action is None] == []
    assert [kind.name for kind in SERVICE_KINDS if kind.action is not None] == []


def stored_keys(data: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(data / "fairwarning.db")) as database:
        return [key for (key,) in database.execute(query)]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_everything_that_an_earlier_release_has_stored_has_a_kind(release: KeptRelease) -> None:
    documents = stored_keys(release.folder, "SELECT key FROM document")
    lines = stored_keys(
        release.folder, "SELECT json_extract(body, '$.key') FROM journal WHERE kind = 'TextChanged'"
    )
    notes = stored_keys(release.folder, "SELECT key FROM note")

    assert documents
    assert notes
    assert [key for key in (*documents, *lines) if sum(kind.has(key) for kind in KINDS) != 1] == []
    assert [key for key in notes if sum(kind.has(key) for kind in SERVICE_KINDS) != 1] == []


def test_an_unknown_key_has_no_kind() -> None:
    with pytest.raises(UnknownKindError, match="the key dream:1"):
        kind_of("dream:1")
    assert kind_name("dream:1") == "unknown kind"
    assert kind_name("operation:1") == "operation"


def test_values_are_written_and_read_back() -> None:
    version = InventoryVersion(digest="abc", number=7)
    replaced = ReplacedInventory(version=InventoryVersion(digest="old"), at=NOON)
    record = InventoryRecord(version=version, since=NOON, replaced=(replaced,))
    operation = Operation(started_at=NOON, resource="/a", events=(EventId("E1"), EventId("E2")))

    assert INVENTORY.decode(INVENTORY.encode(record)) == record
    assert OPERATION.decode(OPERATION.encode(operation)) == operation
    assert SESSIONS_ENDED.decode(SESSIONS_ENDED.encode(NOON)) == NOON
    assert FIRST_READS.decode(FIRST_READS.encode({VmName("web_0"): NOON})) == {"web_0": NOON}
    assert ENDED_SESSION.find({ENDED_SESSION.key("claim"): "ended"}.get, "claim") == "ended"
    assert OPERATION.find(lambda key: None, "gone") is None


def test_an_operation_of_the_first_release_is_read() -> None:
    text = '{"started_at": "2026-11-16T12:00:00.000250Z", "events": ["E1"]}'

    assert OPERATION.decode(text) == Operation(started_at=NOON, resource="", events=(EventId("E1"),))


def test_every_type_of_resource_that_is_kept_as_clients_sent_it_has_a_kind() -> None:
    keys = [
        f"/subscriptions/s/resourceGroups/g/providers/{namespace}/{kind.replace('{kind}', 'a')}/b".lower()
        for namespace, kind in STORED
    ]

    assert {kind_name(key) for key in keys} == {"network resource", "other resource"}


@pytest.mark.parametrize(
    "below",
    [
        pytest.param("/resourcegroups/g/providers/microsoft.compute/virtualmachines/db", id="a machine"),
        pytest.param("/resourcegroups/g/providers/microsoft.compute/disks/d", id="a disk"),
        pytest.param(
            "/resourcegroups/g/providers/microsoft.web/sites/s", id="a resource that nobody has put"
        ),
        pytest.param(
            "/resourcegroups/g/providers/microsoft.storage/storageaccounts/a/b", id="a slash in a name"
        ),
        pytest.param("", id="the subscription"),
    ],
)
def test_a_resource_that_a_template_puts_below_another_has_one_kind(below: str) -> None:
    key = f"/subscriptions/s{below}/providers/microsoft.authorization/roleassignments/r"

    assert [kind.name for kind in KINDS if kind.has(key)] == ["other resource"]
