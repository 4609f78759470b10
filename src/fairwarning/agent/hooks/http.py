"""The http hook: asks a webhook for permission, signed as Standard Webhooks specify.

The call blocks, and only a 2xx answer lets the agent go on, so the receiver can hold an approval back.
"""

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from fairwarning.agent.client import TimedConnection
from fairwarning.agent.hooks.hook import (
    HookContext,
    HookOutcome,
    Now,
    dry_run_outcome,
    event_payload,
    time_left,
)
from fairwarning.agent.hooks.options import Options, SettingsError, read_regular_file

SECRET_PREFIX: Final = "whsec_"
DEFAULT_LIMIT: Final = timedelta(seconds=30)
#: How many bytes of an answer go into the message of the outcome.
MAX_ANSWER: Final = 500
LARGEST_SECRET: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A webhook and its secret; neither proxies nor redirects are followed."""

    url: str
    secret: str | None
    secret_file: str | None
    limit: timedelta

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for a table with ``url``, ``secret`` or ``secret_file``, and ``timeout``."""
        options = Options("http", given, ("url", "secret", "secret_file", "timeout"))
        url = options.needed("url")
        if not _well_formed(url):
            raise SettingsError(options.field("url"), f"{url!r} is not an http or https address")
        secret, secret_file = options.text("secret"), options.text("secret_file")
        if secret is not None and secret_file is not None:
            raise SettingsError("http", "takes secret or secret_file, not both")
        if secret is not None and _key(secret) is None:
            raise SettingsError(options.field("secret"), f"must be {SECRET_PREFIX} followed by base64")
        limit = options.duration("timeout", DEFAULT_LIMIT)
        return cls(url=url, secret=secret, secret_file=secret_file, limit=limit)

    @property
    def name(self) -> str:
        """The address without its user, password and query, which may be secret."""
        parts = urlsplit(self.url)
        return f"http {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def describe(self) -> str:
        """Return the request for permission."""
        return f"ask {self.name.removeprefix('http ')} for permission"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return None

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Post the event; an answer other than 2xx holds the approval."""
        if context.dry_run:
            return dry_run_outcome(self)
        kind = f"event.{context.phase}"
        message = {"type": kind, "timestamp": now().isoformat(), "data": event_payload(context)}
        body = json.dumps(message).encode()
        # A repeated request has the same id, so that the receiver can recognize it.
        message_id = f"{context.event.key}.{context.phase}"
        try:
            headers = self._headers(message_id, int(now().timestamp()), body)
            status, answer = _post(self.url, headers, body, time_left(context, now, self.limit))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return HookOutcome(False, f"{self.name} did not answer: {error or type(error).__name__}")
        text = f": {answer}" if answer else ""
        return HookOutcome(200 <= status <= 299, f"{self.name} answers {status}{text}")

    def _headers(self, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
        }
        secret = self.secret
        if self.secret_file:
            secret = read_regular_file(Path(self.secret_file), LARGEST_SECRET).decode().strip()
        if secret is None:
            return headers
        key = _key(secret)
        if key is None:
            raise ValueError(f"the secret in {self.secret_file} is not {SECRET_PREFIX} followed by base64")
        return {**headers, "webhook-signature": sign(key, message_id, timestamp, body)}


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message in the scheme ``v1``."""
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True) or None
    except binascii.Error:
        return None


def _well_formed(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _post(url: str, headers: Mapping[str, str], body: bytes, timeout: timedelta) -> tuple[int, str]:
    parts = urlsplit(url)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    with TimedConnection(parts.hostname or "", parts.port, timeout, tls=tls) as connection:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, {**headers, "Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(MAX_ANSWER).decode(errors="replace").strip()
