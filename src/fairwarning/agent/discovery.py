"""Finds the endpoint: tries addresses in the order of D-04, from the certain to the guessed.

Apart from the probe and the DHCP query, discovery only reads files. The Windows registry is not read, because
the agent does not run on Windows.
"""

import http.client
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fairwarning.agent import dhcp, leases
from fairwarning.agent.client import TimedConnection
from fairwarning.agent.clock import AgentClock
from fairwarning.core.document.parse import DocumentError, parse_document
from fairwarning.core.document.render import EVENTS_PATH
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError, InvalidError

#: D-01: the address inside a virtual network, and the usual address outside of one.
INSIDE: Final = IPv4Address("169.254.169.254")
OUTSIDE: Final = IPv4Address("168.63.129.16")
#: D-01: outside a virtual network the endpoint answers at one of these ports.
PORTS: Final = (80, 8080)

VARIABLE: Final = "SCHEDULEDEVENTSIP"
EVENTS_QUERY: Final = f"{EVENTS_PATH}?api-version={NEWEST}"
#: An unused address must not use up the notice; the first answer of an endpoint may take long (C-02).
CONNECT_TIMEOUT: Final = timedelta(seconds=3)
ANSWER_TIMEOUT: Final = timedelta(seconds=120)
LARGEST_ANSWER: Final = 16_000_000
#: The least that an attempt gets when the time is nearly up: a timeout of zero would mean none at all.
MIN_TIMEOUT: Final = timedelta(milliseconds=100)


class NoEndpointError(FairWarningError):
    """No address that was tried serves scheduled events."""

    status_hint = 503

    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(f"no endpoint found (tried {', '.join(tried)})")
        self.tried = tried


def discover(
    setting: str | None,
    environment: Mapping[str, str],
    probe: Callable[[str], bool],
    root: Path = Path("/"),
    *,
    now: datetime,
    network_manager: Callable[[], bytes] | None = None,
    query: Callable[[], IPv4Address | None] | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> str:
    """Return the base address of the endpoint: the setting if there is one, else the first that answers.

    Raises:
        InvalidError: the setting is not an address.
        NoEndpointError: no address answers; a later attempt may succeed.
    """
    if setting is not None:
        return base_address(setting)
    read_network_manager = network_manager or show_dhcp
    query_dhcp = query or (lambda: dhcp.query(dhcp.interfaces(root)))
    tried: list[str] = []
    for candidate in _candidates(environment, root, now, read_network_manager, query_dhcp):
        if candidate in tried:
            continue
        if out_of_time():
            break
        if probe(candidate):
            return candidate
        tried.append(candidate)
    raise NoEndpointError(tuple(tried))


def base_address(setting: str) -> str:
    """Return a setting as a base address: ``10.0.0.4:8101`` is ``http://10.0.0.4:8101``.

    Raises:
        InvalidError: the setting is not an http address.
    """
    url = setting.strip() if "://" in setting else f"http://{setting.strip()}"
    with suppress(ValueError):
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0 and not parts.query and not any(map(str.isspace, url))
        if parts.scheme in ("http", "https") and usable:
            return url.rstrip("/")
    raise InvalidError("endpoint", f"{setting!r} is not an http address")


def serves_events(
    base: str, connect_timeout: timedelta = CONNECT_TIMEOUT, answer_timeout: timedelta = ANSWER_TIMEOUT
) -> bool:
    """Whether ``base`` serves a document, reached directly and not through a proxy (D-05)."""
    parts = urlsplit(base)
    try:
        # D-05: this class ignores proxies, whatever the environment says.
        with TimedConnection(
            parts.hostname or "", parts.port, answer_timeout, connect_limit=connect_timeout
        ) as connection:
            connection.request("GET", f"{parts.path}{EVENTS_QUERY}", headers={"Metadata": "true"})
            answer = connection.getresponse()
            return answer.status == 200 and parse_document(answer.read(LARGEST_ANSWER)) is not None
    except (OSError, http.client.HTTPException, DocumentError, ValueError):
        return False


def routed(root: Path) -> bool:
    """Whether a route other than the default leads to the address outside a virtual network (D-04)."""
    target = int(OUTSIDE)
    try:
        lines = (root / "proc/net/route").read_text().splitlines()
    except OSError:
        return False
    for line in lines[1:]:
        with suppress(ValueError, IndexError):
            columns = line.split()
            destination, mask = _kernel_number(columns[1]), _kernel_number(columns[7])
            if mask and target & mask == destination:
                return True
    return False


def search(
    setting: str | None,
    environment: Mapping[str, str],
    clock: AgentClock,
    within: timedelta,
    report: Callable[[str], None],
    root: Path = Path("/"),
    probe_with: Callable[[str, timedelta, timedelta], bool] | None = None,
) -> str:
    """Return the base address of the endpoint for a waiting user: report each attempt, give up in time.

    Raises:
        InvalidError: the setting is not an address.
        NoEndpointError: no address answered within that time.
    """
    end = clock.elapsed() + within

    def left() -> timedelta:
        return max(end - clock.elapsed(), MIN_TIMEOUT)

    def probe(base: str) -> bool:
        report(f"trying {base}")
        return (probe_with or serves_events)(base, min(CONNECT_TIMEOUT, left()), left())

    def query() -> IPv4Address | None:
        interfaces = dhcp.interfaces(root)
        if interfaces:
            report(f"asking DHCP on {', '.join(interface.name for interface in interfaces)}")
        return dhcp.query(interfaces, dhcp.TRIES[:1], left() / (len(interfaces) + 1))

    return discover(
        setting,
        environment,
        probe,
        root,
        now=clock.now(),
        network_manager=lambda: show_dhcp(left()),
        query=query,
        out_of_time=lambda: clock.elapsed() >= end,
    )


def show_dhcp(within: timedelta = timedelta(seconds=10)) -> bytes:
    """Return the leases as NetworkManager prints them; nothing if it does not run."""
    command = ["nmcli", "--fields", "DHCP4", "device", "show"]
    try:
        return subprocess.run(
            command, capture_output=True, timeout=within.total_seconds(), check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""


def _candidates(
    environment: Mapping[str, str],
    root: Path,
    now: datetime,
    read_network_manager: Callable[[], bytes],
    query_dhcp: Callable[[], IPv4Address | None],
) -> Iterator[str]:
    """Yield the base addresses in the order of D-04; a costly source is read only when its turn comes."""
    yield f"http://{INSIDE}"
    with suppress(ValueError):
        yield from _outside(IPv4Address(environment.get(VARIABLE, "").strip()))
    for leased in leases.find(root, now):
        yield from _outside(leased)
    if managed := leases.nmcli(read_network_manager(), now):
        yield from _outside(managed)
    if routed(root):
        yield from _outside(OUTSIDE)
    if offered := query_dhcp():
        yield from _outside(offered)
    yield from _outside(OUTSIDE)


def _outside(address: IPv4Address) -> Iterator[str]:
    for port in PORTS:
        yield f"http://{address}" if port == 80 else f"http://{address}:{port}"


def _kernel_number(digits: str) -> int:
    # The kernel prints an address as a number in host byte order.
    return int.from_bytes(int(digits, 16).to_bytes(4, sys.byteorder), "big")
