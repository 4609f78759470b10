"""Checks of a request that the operator API, the management API and the console share, and their secrets.

This module is below the packages that use it, so that all of them apply the same rules.
"""

import hmac
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from fairwarning.engine.clock import new_secret
from fairwarning.engine.ports import Store


def has_bearer_token(authorizations: Iterable[str]) -> bool:
    """Whether one of the ``Authorization`` headers has a bearer token, right or wrong."""
    return any(header.partition(" ")[0].lower() == "bearer" for header in authorizations)


def bearer_token_matches(authorizations: Iterable[str], token: bytes) -> bool:
    """Whether one of the ``Authorization`` headers has this bearer token."""
    headers = (header.partition(" ") for header in authorizations)
    return any(
        scheme.lower() == "bearer" and hmac.compare_digest(value.strip().encode("latin-1"), token)
        for scheme, _, value in headers
    )


async def stored_secret(store: Store, name: str) -> str:
    """Return a secret that all nodes with this store share, in hexadecimal; the first call creates it."""
    return await store.get_value(name) or await store.put_value_if_absent(name, new_secret().hex())


def client_address(client: Sequence[str | int] | None) -> str:
    """Return the address of the client from its ASGI form; empty if there is none."""
    return str(client[0]) if client else ""


def hosts_are_loopback(hosts: Sequence[str]) -> bool:
    """Whether the ``Host`` headers name this machine.

    Otherwise a web page could reach the server through a DNS name that resolves to loopback (DNS rebinding).
    """
    return bool(hosts) and all(map(_is_loopback, hosts))


def same_site(origins: Iterable[str], hosts: Iterable[str], schemes: Iterable[str] = ("http",)) -> bool:
    """Whether no page of another site sent the request; browsers let pages send what they cannot read."""
    own = {f"{scheme}://{host}" for scheme in schemes for host in hosts}
    return own.issuperset(origins)


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
