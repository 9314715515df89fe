"""Sessions of browsers: what a cookie says of the key that somebody signed in with.

A cookie names the key, and when it was made and ends, under a message authentication code of the gateway's own secret.
It holds nothing of the key's secret, and is good only as long as that key is: a mark in it is made of the digest that
the table holds. It is made anew at each sign-in, from nothing that the browser sent before but the key.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from towpath_gateway.core.api_keys import StoredKey, key_commitment

SESSION_LIFE = timedelta(hours=12)

MIN_SECRET_CHARS = 32

_VALUE = re.compile(r"([a-z0-9]{12})\.([1-9][0-9]{0,16})\.([1-9][0-9]{0,16})\.([0-9a-f]{32})\.([0-9a-f]{64})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """What a cookie says whose code is right; times are microseconds since 1970, by the database's clock."""

    prefix: str
    issued_us: int
    expires_us: int
    key_mark: str

    @property
    def oldest_us(self) -> int:
        """When the oldest session began that may go on while this one does."""
        return self.issued_us - SESSION_LIFE // _MICROSECOND

    @property
    def expires_at(self) -> datetime:
        """When it ends at the latest."""
        return _EPOCH + self.expires_us * _MICROSECOND


class SessionSeal:
    """Makes and reads cookies under *secret*, which all replicas of a gateway share and nobody else knows."""

    def __init__(self, secret: str) -> None:
        if len(secret) < MIN_SECRET_CHARS:
            raise ValueError(f"the secret of sessions has at least {MIN_SECRET_CHARS} characters")
        self._code_key = derived_key(secret, b"code of a session")
        self._mark_key = derived_key(secret, b"key of a session")
        name = f"towpath_session_{derived_key(secret, b'name of the cookie').hex()[:8]}"
        self.cookie_names = (f"__Host-{name}", name)
        """With TLS and without; both differ from those of other gateways, whose cookies a browser sends too."""

    def issue(self, stored: StoredKey, now: datetime) -> tuple[str, BrowserSession]:
        """Return the value of a new cookie for the holder of a valid key, and what it says."""
        ends = now + SESSION_LIFE
        if stored.expires_at is not None:
            ends = min(ends, stored.expires_at)
        session = BrowserSession(
            prefix=stored.prefix,
            issued_us=_microseconds(now),
            expires_us=_microseconds(ends),
            key_mark=self._mark(stored),
        )
        return f"{_said(session)}.{self._code(session)}", session

    def opened(self, value: str) -> BrowserSession | None:
        """Return what a cookie says; None for one that was not made under this secret."""
        found = _VALUE.fullmatch(value)
        if found is None:
            return None
        prefix, issued, expires, mark, code = found.groups()
        session = BrowserSession(prefix=prefix, issued_us=int(issued), expires_us=int(expires), key_mark=mark)
        return session if hmac.compare_digest(self._code(session), code) else None

    def refusal(self, session: BrowserSession, stored: StoredKey | None, now: datetime) -> str | None:
        """Return why *session* lets nobody in at *now*, or None where it does; *stored* is its key as it is now."""
        if stored is None or not hmac.compare_digest(self._mark(stored), session.key_mark):
            return "the key of this session is no longer what it was"
        if stored.revoked_at is not None:
            return "the key of this session was revoked"
        at = _microseconds(now)
        if at >= session.expires_us or (stored.expires_at is not None and stored.expires_at <= now):
            return "this session has expired"
        if session.issued_us in stored.ended_sessions:
            return "somebody signed out of this session"
        if stored.signed_out_at is not None and session.issued_us <= _microseconds(stored.signed_out_at):
            return "somebody signed out of this session"
        return None

    def _code(self, session: BrowserSession) -> str:
        return hmac.new(self._code_key, _said(session).encode(), hashlib.sha256).hexdigest()

    def _mark(self, stored: StoredKey) -> str:
        commitment = key_commitment(stored.prefix, stored.secret_digest)
        return hmac.new(self._mark_key, commitment.encode(), hashlib.sha256).hexdigest()[:32]


def set_cookie(name: str, value: str, life_s: int, *, secure: bool) -> str:
    """Return the `Set-Cookie` header that keeps *value* for *life_s* seconds; 0 takes it away."""
    return f"{name}={value}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def _said(session: BrowserSession) -> str:
    return f"{session.prefix}.{session.issued_us}.{session.expires_us}.{session.key_mark}"


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def derived_key(secret: str, purpose: bytes) -> bytes:
    """Return a key for one purpose: what is made for another never passes for it."""
    return hmac.new(secret.encode(), b"towpath 1: " + purpose, hashlib.sha256).digest()
