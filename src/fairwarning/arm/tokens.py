"""Tokens that clients show with every request, signed by a key that outlives the server.

A token is good for as long as its signature and its time are; who it was made for is not looked at again. One
that another server signed, or that has run out, is answered with a challenge that az and the SDKs understand:
fetch a new one and try again.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fairwarning.arm.context import TENANT
from fairwarning.core.document.render import Json, compact_json
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.ports import Store

LIFE = timedelta(days=1)
#: How long a client may go on fetching tokens without showing its secret again.
REFRESH_LIFE = timedelta(days=90)

ISSUER = f"https://login.fairwarning.test/{TENANT}/"
USER = "dev@fairwarning.test"
ACCESS, IDENTITY, REFRESH, DEVICE = "access", "identity", "refresh", "device"

_ALGORITHM = "HS256"
_NOTE = "arm-key"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Makes tokens and knows its own; with a ``secret``, only who shows it is given one."""

    key: str = field(repr=False)
    now: Callable[[], datetime]
    secret: str | None = field(default=None, repr=False)

    def make(self, audience: str, *, use: str = ACCESS, subject: str = "dev", life: timedelta = LIFE) -> str:
        """Return a signed token."""
        import jwt  # loaded with the first token: starting a server must not wait for it

        made = int(self.now().timestamp())
        claims = {
            "aud": audience,
            "iss": ISSUER,
            "iat": made,
            "nbf": made,
            "exp": made + int(life.total_seconds()),
            "tid": TENANT,
            "oid": subject,
            "sub": subject,
            "appid": subject,
            "ver": "1.0",
            "use": use,
            "upn": USER,
            "unique_name": USER,
            "preferred_username": USER,
        }
        return jwt.encode(claims, self._signing_key, algorithm=_ALGORITHM)

    def holds(self, token: str, use: str = ACCESS) -> bool:
        """Whether we made this token, for this use, and it has not run out."""
        claims = self._claims(token)
        until = claims.get("exp")
        return claims.get("use") == use and isinstance(until, int) and self.now().timestamp() < until

    def signed(self, token: str) -> bool:
        """Whether we made this token, for whatever use and however long ago: nobody has guessed it."""
        return bool(self._claims(token))

    def _claims(self, token: str) -> Mapping[str, Json]:
        import jwt

        try:
            claims: Mapping[str, Json] = jwt.decode(
                token,
                self._signing_key,
                algorithms=[_ALGORITHM],
                # Time is an argument here: the library would read the clock itself.
                options={"verify_aud": False, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
        except jwt.PyJWTError:
            return {}
        return claims

    def admits(self, secret: str) -> bool:
        """Whether a client that shows this secret is given tokens."""
        return self.secret is None or hmac.compare_digest(secret.encode(), self.secret.encode())

    @property
    def _signing_key(self) -> str:
        # A server that is given another secret no longer knows the tokens of those who had the old one.
        return self.key + (self.secret or "")

    def challenge(self, base: str, *, shown: bool) -> str:
        """Return what tells a client where tokens come from; if it has shown one, that it needs another."""
        where = f'Bearer authorization_uri="{base}/adfs"'
        if not shown:
            return f'{where}, error="invalid_token"'
        wanted: Json = {"essential": True, "value": str(int(self.now().timestamp()))}
        claims = base64.b64encode(compact_json({"access_token": {"nbf": wanted}})).decode()
        return f'{where}, error="insufficient_claims", claims="{claims}"'


async def signed_by(store: Store, now: Callable[[], datetime], secret: str | None) -> Tokens:
    """Return the tokens of the server that keeps its state here."""
    key = await store.noted(_NOTE)
    if key is None:
        # Two ids of 122 random bits each: more than the signature can make use of.
        key = f"{new_event_id()}{new_event_id()}"
        await store.note(_NOTE, key)
    return Tokens(key, now, secret)


def machine_token(tokens: Tokens, machine: str, resource: str) -> Mapping[str, Json]:
    """Return what a machine is given that asks for a token of its identity; numbers are text there."""
    made, life = int(tokens.now().timestamp()), int(LIFE.total_seconds())
    return {
        "access_token": tokens.make(resource, subject=machine),
        "client_id": machine,
        "expires_in": str(life),
        "expires_on": str(made + life),
        "ext_expires_in": str(life),
        "not_before": str(made),
        "resource": resource,
        "token_type": "Bearer",
    }
