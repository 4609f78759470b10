"""Which inventory may follow which: numbers count up, hashes do not come back."""

from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.core.errors import FairWarningError, NumberTakenError, OlderInventoryError
from fairwarning.core.inventory import MOST_REPLACED, InventoryRecord, InventoryVersion, record_inventory

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def version(text: str) -> InventoryVersion:
    """Return the version that ``a`` (a hash) or ``12a`` (a number and a hash) stands for."""
    number = text[:-1]
    return InventoryVersion(digest=text[-1], number=int(number) if number else None)


def recorded(*texts: str, replaces: bool = True) -> InventoryRecord:
    """Return the record of a fleet that got these inventories, an hour apart."""
    record = None
    for hour, text in enumerate(texts):
        replaced = "" if record is None or not replaces else str(record.version)
        record = record_inventory(record, version(text), NOON + timedelta(hours=hour), replaced)
    assert record is not None
    return record


@pytest.mark.rule("F-02", "F-03")
@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(("a",), id="the first inventory"),
        pytest.param(("a", "a"), id="the same hash"),
        pytest.param(("12a", "12a"), id="the same number and the same content"),
        pytest.param(("a", "b"), id="an unknown hash"),
        pytest.param(("1a", "2b", "10c"), id="a larger number"),
        pytest.param(("1a", "2b", "3a"), id="a larger number with the content of an earlier inventory"),
        pytest.param(("a", "1b"), id="a number after a hash"),
        pytest.param(("a", "b", "1a"), id="a number, and content that was replaced before numbers"),
    ],
)
def test_a_newer_inventory_is_applied(texts: tuple[str, ...]) -> None:
    record = recorded(*texts, replaces=False)

    assert record.version == version(texts[-1])
    assert record.since == NOON + timedelta(hours=len(set(texts)) - 1)


@pytest.mark.rule("F-04")
@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        pytest.param(("a", "b", "a"), "a was replaced at 2026-11-16 13:00:00Z", id="a replaced hash"),
        pytest.param(("a", "b", "c", "a"), "a was replaced at 2026-11-16 13:00:00Z", id="also long before"),
        pytest.param(("12a", "11b"), "11 is older", id="a smaller number"),
        pytest.param(("11a", "12b", "11a"), "11 was replaced at 2026-11-16 13:00:00Z", id="a known number"),
        pytest.param(("12a", "b"), "b has no number", id="a hash after a number"),
        pytest.param(("12a", "a"), "a has no number", id="the same content without its number"),
        pytest.param(("12a", "13b", "12a", "13b"), "13 was replaced", id="a number that was taken back"),
        pytest.param(("12a", "b", "12a"), "12 was replaced", id="a number before a hash"),
        pytest.param(("12a", "b", "11c"), "11 is older", id="a smaller number than that before a hash"),
    ],
)
def test_an_older_inventory_is_refused_unless_it_names_the_newer_one(
    texts: tuple[str, ...], reason: str
) -> None:
    *before, last = texts
    record, later = recorded(*before), NOON + timedelta(days=1)

    with pytest.raises(OlderInventoryError, match=f"^inventory {reason}.*, and the fleet has") as old:
        record_inventory(record, version(last), later)
    with pytest.raises(OlderInventoryError):
        record_inventory(record, version(last), later, replaces="another")

    current = str(record.version)
    assert str(old.value).endswith(f'; replaces = "{current}" in [inventory] applies it nevertheless')
    assert record_inventory(record, version(last), later, replaces=current).version == version(last)


@pytest.mark.rule("F-04")
@pytest.mark.parametrize("texts", [("12a", "12b"), ("11a", "12b", "11c"), ("12a", "b", "12c")])
def test_a_number_with_other_content_is_refused_in_any_case(texts: tuple[str, ...]) -> None:
    *before, last = texts
    record = recorded(*before)

    with pytest.raises(NumberTakenError, match="has changed, but not its number") as taken:
        record_inventory(record, version(last), NOON, replaces=str(record.version))

    assert "give it a number larger than 12: version in [inventory]" in str(taken.value)


@pytest.mark.rule("F-04")
def test_a_replacement_on_purpose_holds_once() -> None:
    record = recorded("a", "b", "a")

    newer = record_inventory(record, version("c"), NOON)

    with pytest.raises(OlderInventoryError):
        record_inventory(newer, version("a"), NOON, replaces="b")


@pytest.mark.rule("F-01")
def test_the_oldest_replaced_inventories_are_forgotten() -> None:
    def hashed(number: int) -> InventoryVersion:
        return InventoryVersion(digest=f"h{number}")

    record = None
    for number in range(MOST_REPLACED + 2):
        record = record_inventory(record, hashed(number), NOON)
    assert record is not None

    assert len(record.replaced) == MOST_REPLACED
    assert record_inventory(record, hashed(0), NOON).version == hashed(0)
    with pytest.raises(FairWarningError):
        record_inventory(record, hashed(1), NOON)
