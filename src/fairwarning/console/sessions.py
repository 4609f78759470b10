"""Who has shown the token: sessions that a cookie names, and the proof that a form is from a page of ours."""

import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import scrypt, sha256

from fairwarning.access import bearer_token_matches
from fairwarning.engine.clock import new_event_id

#: How long nobody has to show the token again.
LIFE = timedelta(hours=12)

#: What one guess at the token costs whoever has a session's value and tries to find the token behind it.
_COST, _BLOCK = 2**14, 8


class Sessions:
    """Makes and knows session values; they are derived from the token and do not reveal it.

    What everybody is given, proofs above all, is signed with a ``secret`` of this process: nothing in it can
    be held against a guess at the token. Without a token nobody needs a session.
    """

    def __init__(self, token: str | None, now: Callable[[], datetime], secret: bytes) -> None:
        self._token = None if token is None else token.encode()
        self._key = secret if self._token is None else _stretched(self._token)
        self._secret = secret
        self._now = now
        #: Sessions that were ended, and when they would have been over anyway.
        self._ended: dict[str, datetime] = {}
        # Cookies know no ports: two servers on one machine must not take each other's.
        self.cookie = f"fairwarning_session_{_sign(self._key, 'cookie', '')[:8]}"
        self.said = f"fairwarning_said_{_sign(secret, 'said', '')[:8]}"

    @property
    def needed(self) -> bool:
        """Whether a token has to be shown."""
        return self._token is not None

    def opens(self, given: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)

    def admits(self, session: str, authorization: Sequence[str]) -> bool:
        """Whether somebody may come in, or stay: with a session, a bearer token, or where none is needed."""
        return self._token is None or self.known(session) or bearer_token_matches(authorization, self._token)

    def begin(self) -> str:
        """Return the value of a new session."""
        ends = int((self._now() + LIFE).timestamp())
        claim = f"{ends}.{new_event_id()}"
        return f"{claim}.{_sign(self._key, 'session', claim)}"

    def known(self, value: str) -> bool:
        """Whether a session was begun here, has time left and was not ended."""
        claim, _, signature = value.rpartition(".")
        if not self.needed or not hmac.compare_digest(
            signature.encode(), _sign(self._key, "session", claim).encode()
        ):
            return False
        return self._now() < _ends(value) and value not in self._ended

    def end(self, value: str) -> None:
        """Let a session be known no more."""
        if self.known(value):
            now = self._now()
            self._ended = {one: ends for one, ends in self._ended.items() if now < ends}
            self._ended[value] = _ends(value)

    def proof(self, session: str) -> str:
        """Return what a form has to bring along to be believed in a session."""
        return _sign(self._secret, "form", session)


def _ends(value: str) -> datetime:
    return datetime.fromtimestamp(int(value.partition(".")[0]), UTC)


def _stretched(token: bytes) -> bytes:
    return scrypt(token, salt=b"fairwarning console sessions", n=_COST, r=_BLOCK, p=1, dklen=32)


def _sign(key: bytes, use: str, text: str) -> str:
    return hmac.new(key, f"console {use} {text}".encode(), sha256).hexdigest()
