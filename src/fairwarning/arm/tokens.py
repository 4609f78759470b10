"""The tokens that clients send with every request.

A token is a JWT, signed with a key in the store, so tokens survive a restart of the server and are good on
every node that shares the store. A token is valid while its signature and its expiry are; its audience and
its subject are not checked. The ``use`` claim keeps access tokens, refresh tokens, identity tokens and device
codes apart.

A client with an expired token, or with a token of another server, gets a challenge in ``WWW-Authenticate``
that az and the SDKs understand: fetch a new token and try again. The server's secret, if it has one, is part
of the signing key: a new secret invalidates all tokens.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType

from fairwarning.access import stored_secret
from fairwarning.arm.context import TENANT
from fairwarning.core.azure.identity import ManagedIdentity, machine_identity, stored_documents
from fairwarning.core.document.render import Json, compact_json
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.formats.hidden_characters import escape_hidden

LIFE = timedelta(days=1)
#: How long a client can fetch new tokens without sending its secret again.
REFRESH_LIFE = timedelta(days=90)

#: A longer name is cut off where the history shows it.
LONGEST_SUBJECT = 64

ISSUER = f"https://login.fairwarning.test/{TENANT}/"
USER = "dev@fairwarning.test"
ACCESS, IDENTITY, REFRESH, DEVICE = "access", "identity", "refresh", "device"

_ALGORITHM = "HS256"
_KEY_NAME = "arm-key"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Issues and checks tokens; with a ``secret``, only clients that send it get tokens."""

    key: str = field(repr=False)
    now: Callable[[], datetime]
    secret: str | None = field(default=None, repr=False)

    def make(
        self,
        audience: str,
        *,
        use: str = ACCESS,
        subject: str = "dev",
        identity: ManagedIdentity | None = None,
        life: timedelta = LIFE,
    ) -> str:
        """Return a signed token; ``subject`` is whom the history names."""
        import jwt  # imported with the first token, to start the server faster

        issued_at = int(self.now().timestamp())
        claims = {
            "aud": audience,
            "iss": ISSUER,
            "iat": issued_at,
            "nbf": issued_at,
            "exp": issued_at + int(life.total_seconds()),
            "tid": TENANT,
            "oid": subject if identity is None else identity.principal_id,
            "sub": subject,
            "appid": subject if identity is None else identity.client_id,
            "ver": "1.0",
            "use": use,
            "upn": USER,
            "unique_name": USER,
            "preferred_username": USER,
        }
        return jwt.encode(claims, self._signing_key, algorithm=_ALGORITHM)

    def is_valid(self, token: str, use: str = ACCESS) -> bool:
        """Whether this server issued the token, for this use, and it has not expired."""
        claims = self._claims(token)
        expires_at = claims.get("exp")
        return (
            claims.get("use") == use and isinstance(expires_at, int) and self.now().timestamp() < expires_at
        )

    def subject(self, token: str) -> str:
        """Return whom a token names, in visible characters."""
        return escape_hidden(str(self._claims(token).get("sub", "")))[:LONGEST_SUBJECT]

    def is_signed(self, token: str) -> bool:
        """Whether this server issued the token, for any use and at any time, so it is not a guess."""
        return bool(self._claims(token))

    def _claims(self, token: str) -> Mapping[str, Json]:
        return _read_claims(token, self._signing_key)

    def accepts_secret(self, secret: str) -> bool:
        """Whether a client with this secret gets tokens."""
        return self.secret is None or hmac.compare_digest(secret.encode(), self.secret.encode())

    @property
    def _signing_key(self) -> str:
        # A new secret invalidates the tokens that were issued under the old one.
        return self.key + (self.secret or "")

    def challenge(self, base: str, *, has_token: bool) -> str:
        """Return the challenge: where to get a token, or, if the client sent one, that it needs another."""
        bearer = f'Bearer authorization_uri="{base}/adfs"'
        if not has_token:
            return f'{bearer}, error="invalid_token"'
        not_before: Json = {"essential": True, "value": str(int(self.now().timestamp()))}
        claims = base64.b64encode(compact_json({"access_token": {"nbf": not_before}})).decode()
        return f'{bearer}, error="insufficient_claims", claims="{claims}"'


# A client sends the same token with every request, and reading a token takes longer than most answers.
@lru_cache(maxsize=256)
def _read_claims(token: str, key: str) -> Mapping[str, Json]:
    """Return the claims of a token; none if the key did not sign the token."""
    import jwt

    try:
        claims: dict[str, Json] = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            # is_valid() checks the expiry, by its own clock; the library would read the system clock.
            options={"verify_aud": False, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
    except jwt.PyJWTError:
        return {}
    return MappingProxyType(claims)


async def load_tokens(store: Store, now: Callable[[], datetime], secret: str | None) -> Tokens:
    """Return the tokens of the server with this store; the first call creates the key."""
    return Tokens(await stored_secret(store, _KEY_NAME), now, secret)


def machine_token(tokens: Tokens, engine: Engine, machine: MachineRef, resource: str) -> dict[str, Json]:
    """Return a token of a machine's identity, as the metadata API answers."""
    scope, find = engine.scope(machine.scope).facts, stored_documents(engine.stored)
    identity = machine_identity(engine.machine(machine), scope, find)
    answer = version_1_answer(tokens, machine.full, resource, identity)
    return {"access_token": answer["access_token"], "client_id": identity.client_id, **answer}


def version_1_answer(
    tokens: Tokens, subject: str, resource: str, identity: ManagedIdentity | None = None
) -> dict[str, Json]:
    """Return a token as the first version of Azure's token endpoint answers: numbers are strings."""
    issued_at, life = int(tokens.now().timestamp()), int(LIFE.total_seconds())
    return {
        "access_token": tokens.make(resource, subject=subject, identity=identity),
        "expires_in": str(life),
        "expires_on": str(issued_at + life),
        "ext_expires_in": str(life),
        "not_before": str(issued_at),
        "resource": resource,
        "token_type": "Bearer",
    }
