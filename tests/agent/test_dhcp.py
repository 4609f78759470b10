"""The DHCP query is well formed, and only its own answer counts."""

import struct
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.agent import dhcp

XID = bytes.fromhex("deadbeef")
MAC = bytes.fromhex("00155d0a0b0c")
HOST = IPv4Address("168.63.129.16")
OFFER = bytes((53, 1, 2))
ENDPOINT = bytes((245, 4, 168, 63, 129, 16))
END = bytes((255,))

pytestmark = pytest.mark.rule("D-02")


def answer(*options: bytes, xid: bytes = XID, mac: bytes = MAC, cookie: bytes = dhcp.COOKIE) -> bytes:
    head = struct.pack("!4B4sHH16s16s192x4s", 2, 1, 6, 0, xid, 0, 0, bytes(16), mac, cookie)
    return head + b"".join(options)


@pytest.mark.parametrize(
    ("broadcast", "flags"),
    [pytest.param(True, 0x8000, id="broadcast"), pytest.param(False, 0, id="to our address")],
)
def test_the_question_is_a_discover(broadcast: bool, flags: int) -> None:
    packet = dhcp.discover(XID, MAC, broadcast)

    assert packet[:4] == bytes((1, 1, 6, 0))
    assert packet[4:8] == XID
    assert int.from_bytes(packet[10:12], "big") == flags
    assert packet[0x1C:0x22] == MAC
    assert packet[0xEC:0xF0] == bytes.fromhex("63825363")
    assert packet[0xF0:0xF4] == bytes((53, 1, 1, 255))
    assert not packet[0xF4:].strip(b"\0")


def test_the_tries_are_spread_over_minutes() -> None:
    assert [attempt.wait.total_seconds() for attempt in dhcp.TRIES] == [0, 10, 30, 60, 60]
    assert [attempt.broadcast for attempt in dhcp.TRIES] == [False, True, True, True, True]
    assert dhcp.TIMEOUT.total_seconds() == 10


@pytest.mark.parametrize(
    ("packet", "found"),
    [
        pytest.param(answer(OFFER, ENDPOINT, END), HOST, id="an offer with the option"),
        pytest.param(answer(OFFER, b"\0\0\0", ENDPOINT, END), HOST, id="padding between the options"),
        pytest.param(answer(OFFER, ENDPOINT), HOST, id="no end"),
        pytest.param(answer(OFFER, END, ENDPOINT), None, id="the option after the end"),
        pytest.param(answer(OFFER, bytes((3, 4, 10, 0, 0, 1)), END), None, id="another option only"),
        pytest.param(answer(OFFER, bytes((245, 3, 168, 63, 129)), END), None, id="three bytes"),
        pytest.param(answer(OFFER, bytes((245, 4, 168, 63))), None, id="cut off in the value"),
        pytest.param(answer(OFFER, b"\0\0", bytes((245,))), None, id="cut off before the length"),
        pytest.param(
            answer(OFFER, ENDPOINT, END, xid=b"1234"), None, id="an answer to another client's query"
        ),
        pytest.param(answer(OFFER, ENDPOINT, END, mac=b"others"), None, id="an answer to another interface"),
        pytest.param(answer(OFFER, ENDPOINT, END, cookie=b"\0\0\0\0"), None, id="BOOTP without DHCP"),
        pytest.param(answer(OFFER, END), None, id="too short to say anything"),
        pytest.param(b"", None, id="nothing"),
    ],
)
@pytest.mark.rule("D-01")
def test_only_a_whole_answer_to_our_question_names_the_host(packet: bytes, found: IPv4Address | None) -> None:
    assert dhcp.endpoint(packet, XID, MAC) == found


@given(st.binary(max_size=600))
def test_no_answer_makes_the_reader_stumble(noise: bytes) -> None:
    dhcp.endpoint(answer(noise), XID, MAC)
    dhcp.endpoint(noise, XID, MAC)


def test_interfaces_are_the_ethernet_ones_that_are_not_down(tmp_path: Path) -> None:
    known = {
        "eth0": ("1", "up", "00:15:5d:0a:0b:0c"),
        "eth1": ("1", "down", "00:15:5d:0a:0b:0d"),
        "lo": ("772", "unknown", "00:00:00:00:00:00"),
        "odd": ("1", "up", "no address"),
    }
    for name, values in known.items():
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        for file, value in zip(("type", "operstate", "address"), values, strict=True):
            (folder / file).write_text(f"{value}\n")
    (tmp_path / "sys/class/net/bonding_masters").write_text("")

    assert dhcp.interfaces(tmp_path) == (dhcp.Interface("eth0", MAC),)


def test_an_interface_that_cannot_be_asked_is_passed_over() -> None:
    nowhere = dhcp.Interface("nonexistent0", MAC)

    assert dhcp.query([nowhere], (dhcp.Try(timedelta(0)), dhcp.Try(timedelta(0)))) is None


def test_the_waiting_ends_when_the_agent_stops() -> None:
    stop = Event()
    stop.set()

    found = dhcp.query([dhcp.Interface("nonexistent0", MAC)], (dhcp.Try(timedelta(hours=1)),), stop=stop)

    assert found is None


def test_without_an_interface_the_query_returns_at_once() -> None:
    assert dhcp.query([], (dhcp.Try(timedelta(hours=1)),)) is None
