"""Who may come in: what the faces for people and for tools ask of a request alike.

Below the HTTP rooms, so that both the operator API and the console stand behind the same door.
"""

import hmac
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit


def bears(given: Iterable[str]) -> bool:
    """Whether one of the ``Authorization`` headers bears any token at all."""
    return any(one.partition(" ")[0].lower() == "bearer" for one in given)


def holds(given: Iterable[str], token: bytes) -> bool:
    """Whether one of the ``Authorization`` headers bears the token."""
    schemes = (one.partition(" ") for one in given)
    return any(
        scheme.lower() == "bearer" and hmac.compare_digest(value.strip().encode("latin-1"), token)
        for scheme, _, value in schemes
    )


def caller(client: Sequence[str | int] | None) -> str:
    """Return the address that a request came from, as ASGI tells it; empty where there is none."""
    return str(client[0]) if client else ""


def ours(hosts: Sequence[str]) -> bool:
    """Whether a request was sent to a name of this machine.

    A name that leads here by somebody else's DNS must not lend a web page our address.
    """
    return bool(hosts) and all(map(_loopback, hosts))


def same_site(origins: Iterable[str], hosts: Iterable[str], schemes: Iterable[str] = ("http",)) -> bool:
    """Whether no web page of another site sent a request, which it may though it cannot read the answer."""
    own = {f"{scheme}://{host}" for scheme in schemes for host in hosts}
    return own.issuperset(origins)


def _loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
