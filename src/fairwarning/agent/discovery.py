"""Where the endpoint is, tried in the order of D-04 from what is certain to what is a guess.

Everything but the probe and the DHCP query only reads files. The registry of Windows is not read: the agent
does not run there.
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
from fairwarning.agent.clock import AgentClock
from fairwarning.agent.deadline import deadline
from fairwarning.core.document.parse import DocumentError, parse_document
from fairwarning.core.document.render import EVENTS_PATH
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError, InvalidError

#: D-01: the address in a virtual network, and the one that option 245 normally holds.
INSIDE: Final = IPv4Address("169.254.169.254")
OUTSIDE: Final = IPv4Address("168.63.129.16")
#: D-01: outside a virtual network one of these answers.
PORTS: Final = (80, 8080)

VARIABLE: Final = "SCHEDULEDEVENTSIP"
QUESTION: Final = f"{EVENTS_PATH}?api-version={NEWEST}"
#: An address where nobody is must not use up the notice; one that answers may take its time at first (C-02).
TO_CONNECT: Final = timedelta(seconds=3)
TO_ANSWER: Final = timedelta(seconds=120)
LONGEST_ANSWER: Final = 16_000_000
#: What is tried when the time is nearly up is given this long: a timeout of zero would mean none at all.
SHORTEST_TRY: Final = timedelta(milliseconds=100)


class NoEndpointError(FairWarningError):
    """Nobody answers at any address that was tried."""

    status_hint = 503

    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(f"no scheduled events at {', '.join(tried)}")
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
    """Return the base address of the endpoint: the setting as it is, else the first that answers the probe.

    Raises:
        Invalid: the setting is no address.
        NoEndpoint: nobody answers; it may be worth asking again later.
    """
    if setting is not None:
        return base_address(setting)
    ask_manager = network_manager or show_dhcp
    ask_network = query or (lambda: dhcp.query(dhcp.interfaces(root)))
    tried: list[str] = []
    for candidate in _candidates(environment, root, now, ask_manager, ask_network):
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
        Invalid: it is no http address.
    """
    url = setting.strip() if "://" in setting else f"http://{setting.strip()}"
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.query:
            return url.rstrip("/")
    raise InvalidError("endpoint", f"{setting!r} is no http address")


def answers(base: str, to_connect: timedelta = TO_CONNECT, to_answer: timedelta = TO_ANSWER) -> bool:
    """Whether a document with events is served at ``base``, reached directly, past every proxy (D-05)."""
    parts = urlsplit(base)
    # D-05: this class knows nothing of proxies, whatever the environment says.
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=to_connect.total_seconds()
    )
    try:
        with deadline(connection, to_answer):
            connection.connect()
            connection.sock.settimeout(to_answer.total_seconds())
            connection.request("GET", f"{parts.path}{QUESTION}", headers={"Metadata": "true"})
            answer = connection.getresponse()
            return answer.status == 200 and parse_document(answer.read(LONGEST_ANSWER)) is not None
    except (OSError, http.client.HTTPException, DocumentError, ValueError):
        return False


def routed(root: Path) -> bool:
    """Whether a route of its own, not just the default one, leads to the address outside (D-04)."""
    wanted = int(OUTSIDE)
    try:
        lines = (root / "proc/net/route").read_text().splitlines()
    except OSError:
        return False
    for line in lines[1:]:
        with suppress(ValueError, IndexError):
            columns = line.split()
            destination, mask = _kernel_number(columns[1]), _kernel_number(columns[7])
            if mask and wanted & mask == destination:
                return True
    return False


def search(
    setting: str | None,
    environment: Mapping[str, str],
    clock: AgentClock,
    within: timedelta,
    tell: Callable[[str], None],
    root: Path = Path("/"),
    answering: Callable[[str, timedelta, timedelta], bool] | None = None,
) -> str:
    """Return the base address of the endpoint while somebody waits: say what is tried, give up in time.

    Raises:
        Invalid: the setting is no address.
        NoEndpoint: nobody answered within that time.
    """
    end = clock.elapsed() + within

    def left() -> timedelta:
        return max(end - clock.elapsed(), SHORTEST_TRY)

    def probe(base: str) -> bool:
        tell(f"trying {base}")
        return (answering or answers)(base, min(TO_CONNECT, left()), left())

    def query() -> IPv4Address | None:
        among = dhcp.interfaces(root)
        if among:
            tell(f"asking DHCP on {', '.join(one.name for one in among)}")
        return dhcp.query(among, dhcp.TRIES[:1], left() / (len(among) + 1))

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
    """Return what NetworkManager says of its leases; nothing where it does not run."""
    words = ["nmcli", "--fields", "DHCP4", "device", "show"]
    try:
        return subprocess.run(words, capture_output=True, timeout=within.total_seconds(), check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""


def _candidates(
    environment: Mapping[str, str],
    root: Path,
    now: datetime,
    ask_manager: Callable[[], bytes],
    ask_network: Callable[[], IPv4Address | None],
) -> Iterator[str]:
    """Yield the base addresses in the order of D-04; what is costly to learn is asked when its turn comes."""
    yield f"http://{INSIDE}"
    with suppress(ValueError):
        yield from _outside(IPv4Address(environment.get(VARIABLE, "").strip()))
    for leased in leases.find(root, now):
        yield from _outside(leased)
    if managed := leases.nmcli(ask_manager(), now):
        yield from _outside(managed)
    if routed(root):
        yield from _outside(OUTSIDE)
    if offered := ask_network():
        yield from _outside(offered)
    yield from _outside(OUTSIDE)


def _outside(address: IPv4Address) -> Iterator[str]:
    for port in PORTS:
        yield f"http://{address}" if port == 80 else f"http://{address}:{port}"


def _kernel_number(digits: str) -> int:
    # The kernel prints addresses as the number they are in memory.
    return int.from_bytes(int(digits, 16).to_bytes(4, sys.byteorder), "big")
