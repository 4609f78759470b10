"""Two ``serve`` processes with different files on one database: the newer inventory stays."""

import signal
from pathlib import Path

import httpx2
import pytest

from tests.cli.server import until
from tests.cli.test_serve import FLEET, Serving, serving
from tests.config.files import secret
from tests.postgres import new_database

POSTGRES = FLEET.replace(
    'kind = "sqlite"\npath = "data"', 'kind = "postgres"\ndsn_file = "../dsn"\nmigrate = true'
)
OLD = f'{POSTGRES}[[machine]]\nname = "metal-1"\n[[machine]]\nname = "db"\nhost = "rack1"\n'
NEW = OLD.replace('"metal-1"', '"new-1"').replace('"db"\nhost = "rack1"', '"db"\nhost = "rack2"')


def machines(node: Serving) -> dict[str, str]:
    """Return the host of every machine, by its name."""
    return {machine["name"]: machine["host"] for machine in node.tell("vms")}


@pytest.mark.rule("F-01", "F-05")
def test_a_node_that_starts_with_an_older_inventory_ends_and_undoes_nothing(tmp_path: Path) -> None:
    secret(tmp_path, "dsn", new_database())
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    with serving(tmp_path / "a", OLD) as first:
        with serving(tmp_path / "b", OLD):
            (tmp_path / "a" / "fleet.toml").write_text(NEW)
            first.process.send_signal(signal.SIGHUP)
            until(lambda: "reloaded" in first.logged(), "the first node has read the newer file")
        newer = machines(first)
        with pytest.raises(AssertionError) as refused, serving(tmp_path / "b", OLD):
            pass
        after = machines(first)
        # A node that was refused may be listed until its heartbeat is old.
        (node,) = (node for node in first.tell("nodes") if node["this"])
        ready = httpx2.get(f"{first.url}/readyz", trust_env=False).json()

    assert newer == after
    assert sorted(after) == ["db", "new-1", "w1", "w2"]
    assert after["db"] == "rack2"
    assert f'replaces = "{node["inventory"]}" in [inventory] applies it nevertheless' in str(refused.value)
    assert ready == {"status": "ready", "inventory": node["inventory"]}
