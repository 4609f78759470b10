"""Reads the endpoint's address from the lease files of the machine's DHCP client (D-03).

The parsers are pure; ``find`` reads the files. Windows leases are not read, because the agent does not run
there.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Final

from fairwarning.agent import dhcp

Parser = Callable[[bytes, datetime], IPv4Address | None]

_OPTION = re.compile(rb"^\s*option\s+(?:unknown|option|private)-245\s+(.+?)\s*;\s*$")
_EXPIRE = re.compile(rb"^\s*expire\s+(.+?)\s*;")
_DATE = re.compile(rb"\d\s+(\d{4})/(\d\d?)/(\d\d?)\s+(\d\d?):(\d\d):(\d\d)")
_EPOCH = re.compile(rb"epoch\s+(\d{1,11})")
_HEX_GROUPS = re.compile(rb"[0-9a-fA-F]{1,2}(?::[0-9a-fA-F]{1,2}){3}")
_HEX_DIGITS = re.compile(rb"[0-9a-fA-F]{8}")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_NETWORKD = re.compile(rb"^OPTION_245=(\S+)\s*$", re.MULTILINE)
_NMCLI = re.compile(rb"\b(?:unknown|private|option)_245\s*=\s*(\S+)\s*$", re.MULTILINE)


def dhclient(text: bytes, now: datetime) -> IPv4Address | None:
    """Return the address in the last lease of a dhclient file that has one and has not expired."""
    result = None
    for block in _blocks(text):
        matches = [match[1] for line in block if (match := _OPTION.match(line))]
        if matches and not _expired(block, now):
            result = address(matches[-1]) or result
    return result


def networkd(text: bytes, now: datetime) -> IPv4Address | None:
    """Return the address in a lease of systemd-networkd, which removes expired leases."""
    match = _NETWORKD.search(text)
    return address(match[1]) if match else None


def nmcli(text: bytes, now: datetime) -> IPv4Address | None:
    """Return the address in the output of ``nmcli --fields DHCP4 device show``."""
    match = _NMCLI.search(text)
    return address(match[1]) if match else None


def packet(content: bytes, now: datetime) -> IPv4Address | None:
    """Return the address in a lease of dhcpcd, which stores the server's packet."""
    return dhcp.option_245(content)


def address(value: bytes) -> IPv4Address | None:
    """Return an address written as hex groups, hex digits, dotted, or four bytes, some of them escaped."""
    if _HEX_GROUPS.fullmatch(value):
        return IPv4Address(bytes(int(group, 16) for group in value.split(b":")))
    if _HEX_DIGITS.fullmatch(value):
        return IPv4Address(bytes.fromhex(value.decode()))
    try:
        return IPv4Address(value.decode("ascii"))
    except (AddressValueError, UnicodeDecodeError):
        pass
    quoted = value[1:-1] if len(value) >= 2 and value[:1] == value[-1:] == b'"' else value
    raw = _ESCAPE.sub(_unescape, quoted)
    return IPv4Address(raw) if len(raw) == 4 else None


@dataclass(frozen=True, slots=True)
class LeaseFiles:
    """The lease files of a system, and the parser of their format."""

    pattern: str
    parse: Parser


#: In the order in which they are read.
LEASE_FILES: Final[Mapping[str, tuple[LeaseFiles, ...]]] = {
    "Debian, older Ubuntu": (LeaseFiles("var/lib/dhcp/dhclient*.leases", dhclient),),
    "RHEL, CentOS 6": (LeaseFiles("var/lib/dhclient/dhclient-*.leases", dhclient),),
    "RHEL 7+, SUSE": (
        LeaseFiles("var/lib/dhclient/dhclient-*.lease", dhclient),
        LeaseFiles("var/lib/NetworkManager/dhclient-*.lease", dhclient),
    ),
    "systemd-networkd": (LeaseFiles("run/systemd/netif/leases/*", networkd),),
    "OpenBSD": (LeaseFiles("var/db/dhclient.leases.*", dhclient),),
    "cloud-init": (LeaseFiles("run/dhclient.lease", dhclient),),
    "dhcpcd": (LeaseFiles("var/lib/dhcpcd/*.lease", packet), LeaseFiles("var/db/dhcpcd/*.lease", packet)),
}


def find(root: Path, now: datetime) -> Iterator[IPv4Address]:
    """Yield the addresses in the leases below ``root``; unreadable files are skipped."""
    for sources in LEASE_FILES.values():
        for source in sources:
            for path in sorted(root.glob(source.pattern)):
                try:
                    leased = source.parse(path.read_bytes(), now)
                except OSError:
                    continue
                if leased:
                    yield leased


def _blocks(text: bytes) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for line in text.split(b"\n"):
        if line.split(b"{")[0].strip() == b"lease" and b"{" in line:
            block = []
        elif line.strip() == b"}":
            yield block
            block = []
        else:
            block.append(line)


def _expired(block: list[bytes], now: datetime) -> bool:
    expiry = next((match[1] for line in block if (match := _EXPIRE.match(line))), b"never")
    try:
        if date := _DATE.match(expiry):
            year, month, day, hour, minute, second = map(int, date.groups())
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC) <= now
        if epoch := _EPOCH.match(expiry):
            return datetime.fromtimestamp(int(epoch[1]), UTC) <= now
    except (ValueError, OverflowError):
        return True  # an invalid date: do not trust the lease
    return expiry != b"never"


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes([int(escaped, 8) & 0xFF]) if len(escaped) == 3 else escaped
