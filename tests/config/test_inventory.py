"""The inventory of a file of ``serve``: its version, and the update domains of its machines."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairwarning.config.read_file import ConfigError
from fairwarning.core.inventory import InventoryVersion
from fairwarning.core.maintenance.values import MaintenanceBudget
from tests.config.files import loaded, write


@pytest.mark.rule("F-07")
def test_machines_of_a_set_on_one_host_share_an_update_domain(tmp_path: Path) -> None:
    rows = "name,set,host,update_domain\n"
    rows += "a1,acme,kvm-17,\na2,acme,kvm-17,\na3,acme,kvm-18,\na4,acme,kvm-18,4\na5,acme,,\n"
    write(tmp_path, rows, "m.csv")

    serve = loaded(tmp_path, '[inventory]\nfile = "m.csv"\n[[set]]\nname = "acme"').settings.serve

    assert serve is not None
    (acme,) = serve.inventory
    domains = {one.name: one.update_domain for one in acme.machines}
    assert domains == {"a1": 2, "a2": 2, "a3": 3, "a4": 4, "a5": 0}
    assert acme.domains_given == {"a4"}


LISTED = """
[[set]]
name = "web"
[[machine]]
name = "w1"
set = "web"
address = "10.0.0.1"
tags = { a = "1", b = "2" }
[[machine]]
name = "db"
address = ["::ffff:10.0.0.9", "10.0.0.8"]
"""


def inventory_of(folder: Path, text: str) -> InventoryVersion:
    """Return the version of the inventory of a file."""
    serve = loaded(folder, text).settings.serve
    assert serve is not None
    return serve.inventory_version


@pytest.mark.rule("F-01")
def test_a_hash_is_the_same_in_every_release(tmp_path: Path) -> None:
    assert inventory_of(tmp_path, LISTED) == InventoryVersion(digest="213aeae91491")


@pytest.mark.rule("F-01")
def test_an_inventory_has_the_same_hash_in_every_order_and_spelling(tmp_path: Path) -> None:
    rows = "name,spot,tags,set,address\ndb,false,,,10.0.0.8 10.0.0.9\nw1,,b=2;a=1,web,10.0.0.1\n"
    write(tmp_path, rows, "m.csv")

    listed = inventory_of(tmp_path, '[inventory]\nfile = "m.csv"\n[[set]]\nname = "web"\nbroadcast = true')

    assert listed == inventory_of(tmp_path, LISTED)


@pytest.mark.rule("F-01")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"w1"', '"w2"'),
        ('"10.0.0.1"', '"10.0.0.2"'),
        ('a = "1"', 'a = "2"'),
        ("[[set]]", "[[set]]\nbroadcast = false"),
        ('"db"', '"db"\nhost = "rack1"'),
    ],
)
def test_whatever_an_inventory_lists_is_part_of_its_hash(tmp_path: Path, before: str, after: str) -> None:
    changed = LISTED.replace(before, after, 1)

    assert inventory_of(tmp_path, changed) != inventory_of(tmp_path, LISTED)


@pytest.mark.rule("F-01")
def test_a_number_is_the_version_and_no_part_of_the_hash(tmp_path: Path) -> None:
    table = '[inventory]\nversion = 3\nreplaces = "12"\n'

    numbered = inventory_of(tmp_path, f"{LISTED}{table}")

    assert numbered == replace(inventory_of(tmp_path, LISTED), number=3)
    assert str(numbered) == "3"


BUDGETS_AND_HOSTS = """
[[budget]]
each = "scope"
most = 1
[[budget]]
each = "db"
group = "orders"
most = 2
[[host]]
name = "kvm-17"
labels = { rack = "B" }
"""


@pytest.mark.rule("F-10")
def test_budgets_and_labels_of_hosts_are_part_of_the_inventory(tmp_path: Path) -> None:
    serve = loaded(tmp_path, LISTED + BUDGETS_AND_HOSTS).settings.serve

    assert serve is not None
    assert serve.budgets == (
        MaintenanceBudget(each="scope", most=1),
        MaintenanceBudget(each="db", most=2, group="orders"),
    )
    assert serve.labels == {"kvm-17": {"rack": "B"}}
    assert serve.inventory_version != inventory_of(tmp_path, LISTED)


@pytest.mark.rule("F-10")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BUDGETS_AND_HOSTS * 2, "is listed twice", id="the same budget and host twice"),
        pytest.param('[[budget]]\neach = "scope"\nmost = 0', "most", id="a budget of nothing"),
        pytest.param("[[budget]]\nmost = 1", "each", id="a budget of no group"),
        pytest.param('[[host]]\nname = "a\\u200b"', "invisible", id="a name that nobody can read"),
    ],
)
def test_an_invalid_budget_or_host_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        loaded(tmp_path, LISTED + text)
