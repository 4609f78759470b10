"""Sessions and CSRF tokens.

A login with the server's token starts a session. The session value is a signed claim (end and id), kept
in a cookie; only the sessions that were ended early are stored (``EndedSessions``). The signing key is
derived from the token by scrypt: sessions survive a restart and are good on every node with the same token,
a new token ends them all, and a stolen session value is an expensive way to guess the token.

CSRF tokens are signed with a secret in the store instead. Every visitor gets one, even before the login, so
they must not depend on the token: nothing that a stranger receives can be used to check a guess.
"""

import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import scrypt, sha256

from fairwarning.access import bearer_token_matches
from fairwarning.control.control import Control
from fairwarning.core.model import Principal, PrincipalKind
from fairwarning.core.stored.kinds import ENDED_SESSION, SESSIONS_ENDED
from fairwarning.engine.clock import new_event_id

#: Who the history says did what is done in the console.
CONSOLE = Principal(PrincipalKind.OPERATOR, "console")

#: How long a session lasts.
LIFETIME = timedelta(hours=12)

#: How many ended sessions are stored; one more ends all sessions.
MOST_ENDED = 1000

#: scrypt's parameters: the cost of one guess at the token behind a session value.
_COST, _BLOCK = 2**14, 8


class EndedSessions:
    """The claims of the sessions that were ended before they expired: texts, which every node follows.

    A claim without its signature is not a secret. Expired claims are removed when a session is ended.
    """

    def __init__(self, control: Control) -> None:
        self._control = control

    def __contains__(self, claim: str) -> bool:
        stored = self._control.engine.stored
        all_ended = SESSIONS_ENDED.find(stored)
        if all_ended is not None and _expiry(claim) - LIFETIME < all_ended:
            return True
        return stored(ENDED_SESSION.key(claim)) is not None

    async def add(self, claim: str, now: datetime) -> None:
        """Store the claim of a session that ends now."""
        prefix = ENDED_SESSION.prefix
        known = list(self._control.engine.view().keys_under(prefix))
        expired = [key for key in known if _expiry(key.removeprefix(prefix)) <= now]
        ended = {ENDED_SESSION.key(claim): ENDED_SESSION.encode("ended")}
        texts: dict[str, str | None] = {**dict.fromkeys(expired), **ended}
        if len(known) - len(expired) >= MOST_ENDED:
            texts = {**dict.fromkeys(known), SESSIONS_ENDED.key(): SESSIONS_ENDED.encode(now)}
        await self._control.carry_out(CONSOLE, lambda draft: draft.put_texts(texts), "logout")


class Sessions:
    """Creates and checks session values and CSRF tokens; without a token no session is needed."""

    def __init__(
        self, token: str | None, now: Callable[[], datetime], secret: bytes, ended: EndedSessions
    ) -> None:
        self._token = None if token is None else token.encode()
        self._key = secret if self._token is None else _derive_key(self._token)
        self._secret = secret
        self._now = now
        self._ended = ended
        # Cookies ignore ports, so two servers on one machine need different cookie names.
        self.session_cookie = f"fairwarning_session_{_sign(self._key, 'cookie', '')[:8]}"
        self.flash_cookie = f"fairwarning_flash_{_sign(secret, 'flash', '')[:8]}"

    @property
    def token_required(self) -> bool:
        """Whether the console asks for a token."""
        return self._token is not None

    def is_token(self, given: str) -> bool:
        """Whether ``given`` is the server's token."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)

    def admits(self, session: str, authorization: Sequence[str]) -> bool:
        """Whether a request has a valid session or bearer token, or needs none."""
        return (
            self._token is None or self.is_valid(session) or bearer_token_matches(authorization, self._token)
        )

    def begin(self) -> str:
        """Return the value of a new session."""
        ends = int((self._now() + LIFETIME).timestamp())
        claim = f"{ends}.{new_event_id()}"
        return f"{claim}.{_sign(self._key, 'session', claim)}"

    def is_valid(self, value: str) -> bool:
        """Whether a session value has a valid signature, has not expired and was not ended."""
        claim, _, signature = value.rpartition(".")
        if not self.token_required or not hmac.compare_digest(
            signature.encode(), _sign(self._key, "session", claim).encode()
        ):
            return False
        return self._now() < _expiry(claim) and claim not in self._ended

    async def end(self, value: str) -> None:
        """End a session, on every node."""
        if self.is_valid(value):
            await self._ended.add(value.rpartition(".")[0], self._now())

    def csrf_token(self, session: str) -> str:
        """Return the token that the forms of a session have to contain."""
        return _sign(self._secret, "form", session)


def _expiry(claim: str) -> datetime:
    return datetime.fromtimestamp(int(claim.partition(".")[0]), UTC)


def _derive_key(token: bytes) -> bytes:
    return scrypt(token, salt=b"fairwarning console sessions", n=_COST, r=_BLOCK, p=1, dklen=32)


def _sign(key: bytes, use: str, text: str) -> str:
    return hmac.new(key, f"console {use} {text}".encode(), sha256).hexdigest()
