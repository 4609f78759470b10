"""The lease files of every DHCP client hold the address of the endpoint."""

from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from fairwarning.agent import leases

LEASES = Path(__file__).parent / "leases"
HOST = IPv4Address("168.63.129.16")

pytestmark = pytest.mark.rule("D-03")


def lease(*lines: str) -> bytes:
    return "\n".join(("lease {", *(f"  {line}" for line in lines), "}", "")).encode()


@pytest.mark.parametrize(
    "system",
    [
        pytest.param("debian", id="Debian: the last lease of dhclient that has not expired"),
        pytest.param("centos-6", id="CentOS 6: a lease that never expires"),
        pytest.param("rhel-7", id="RHEL 7, SUSE: dhclient on its own"),
        pytest.param("rhel-7-network-manager", id="RHEL 7: dhclient under NetworkManager"),
        pytest.param("networkd", id="Ubuntu 18.04: systemd-networkd"),
        pytest.param("openbsd", id="OpenBSD: an expiry with the name of its zone"),
        pytest.param("cloud-init", id="cloud-init: dhclient with seconds since the epoch"),
        pytest.param("cloud-init-escaped", id="cloud-init: four bytes, some of them escaped"),
        pytest.param("dhcpcd", id="dhcpcd: the packet as it came"),
    ],
)
@pytest.mark.rule("D-01")
def test_the_lease_of_every_system_names_the_host(system: str, noon: datetime) -> None:
    assert list(leases.find(LEASES / system, noon)) == [HOST]


def test_every_source_has_a_fixture() -> None:
    sources = [source for sources in leases.LEASE_FILES.values() for source in sources]
    without = [source.pattern for source in sources if not list(LEASES.glob(f"*/{source.pattern}"))]

    assert without == ["var/db/dhcpcd/*.lease"]  # where dhcpcd used to keep the same packets


def test_an_expired_lease_is_ignored(noon: datetime) -> None:
    assert list(leases.find(LEASES / "expired", noon)) == []


def test_a_machine_without_leases_has_none(noon: datetime, tmp_path: Path) -> None:
    (tmp_path / "run/systemd/netif/leases/folder").mkdir(parents=True)

    assert list(leases.find(tmp_path, noon)) == []


@pytest.mark.parametrize(
    "key", [pytest.param("unknown_245", id="older"), pytest.param("private_245", id="newer")]
)
def test_network_manager_says_it_through_nmcli(key: str, noon: datetime) -> None:
    text = (LEASES / "nmcli/device-show.txt").read_text().replace("unknown_245", key)

    assert leases.nmcli(text.encode(), noon) == HOST


@pytest.mark.parametrize(
    ("written", "address"),
    [
        pytest.param(b"a8:3f:81:10", "168.63.129.16", id="four groups"),
        pytest.param(b"A8:3F:81:10", "168.63.129.16", id="four groups in capitals"),
        pytest.param(b"a:0:8:1", "10.0.8.1", id="groups of one digit"),
        pytest.param(b"a83f8110", "168.63.129.16", id="eight digits"),
        pytest.param(b"168.63.129.16", "168.63.129.16", id="dotted"),
        pytest.param(rb'"\250?\201\020"', "168.63.129.16", id="four bytes, some in octal"),
        pytest.param(b'"\xa8?\x81\x10"', "168.63.129.16", id="four bytes as they are"),
        pytest.param(b"\xa8?\x81\x10", "168.63.129.16", id="four bytes without quotes"),
        pytest.param(rb'"\"\\ab"', "34.92.97.98", id="a quote and a backslash, escaped"),
        pytest.param(b"a8:3f:81", None, id="three groups"),
        pytest.param(b"a8:3f:81:10:00", None, id="five groups"),
        pytest.param(b"a8:3f:81:1g", None, id="a group that is no number"),
        pytest.param(b'""', None, id="nothing"),
    ],
)
def test_an_address_is_read_in_every_way_it_is_written(written: bytes, address: str | None) -> None:
    assert leases.address(written) == (IPv4Address(address) if address else None)


@pytest.mark.parametrize(
    ("expiry", "valid"),
    [
        pytest.param(("expire never;",), True, id="never"),
        pytest.param((), True, id="nothing is said"),
        pytest.param(("expire 1 2026/11/16 12:00:01;",), True, id="in a second"),
        pytest.param(("expire 1 2026/11/16 12:00:00;",), False, id="now"),
        pytest.param(("expire 1 2026/11/16 11:00:00 UTC;",), False, id="an hour ago, with a zone"),
        pytest.param(("expire epoch 1794830401; # in a second",), True, id="in a second, as a number"),
        pytest.param(("expire epoch 1794830400; # now",), False, id="now, as a number"),
        pytest.param(("expire 1 2026/13/45 11:00:00;",), False, id="a date that is none"),
        pytest.param(("expire soon;",), False, id="no date"),
    ],
)
def test_a_lease_counts_until_it_expires(expiry: tuple[str, ...], valid: bool, noon: datetime) -> None:
    text = lease("option unknown-245 a8:3f:81:10;", *expiry)

    assert (leases.dhclient(text, noon) == HOST) is valid


def test_the_last_lease_counts_even_if_an_earlier_one_lasts_longer(noon: datetime) -> None:
    text = lease("option unknown-245 1:2:3:4;", "expire never;") + lease(
        "option unknown-245 a8:3f:81:10;", "expire 2 2026/11/17 00:00:00;"
    )

    assert leases.dhclient(text, noon) == HOST
    assert leases.dhclient(text, noon + timedelta(days=1)) == IPv4Address("1.2.3.4")


def test_a_lease_that_is_still_being_written_does_not_count(noon: datetime) -> None:
    text = lease("option unknown-245 a8:3f:81:10;") + b"lease {\n  option unknown-245 1:2:3:4;\n"

    assert leases.dhclient(text, noon) == HOST
