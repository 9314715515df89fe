"""Cookies of people who signed in with a key: who is let in by one, and how one begins and ends.

A cookie stands for its key in everything: scopes, roles, shares and the audit are the key's. Each request looks at the
key as it is now, so whoever revokes it ends its sessions.
"""

from starlette.datastructures import Headers

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.adapters.key_store import KeyStore
from towpath_gateway.core.api_keys import Principal, StoredKey, principal_of, split_key
from towpath_gateway.core.browser_sessions import BrowserSession, SessionSeal, set_cookie
from towpath_gateway.core.headers import refused_site, sent_cookie

SAME_SITE_REMEDY = "Use the pages of this gateway, or send a key: Authorization: Bearer KEY."
SIGN_IN_REMEDY = "Sign in at /sign-in, or send a key: Authorization: Bearer KEY."


class SessionCookies:
    """The sessions of a gateway: *seal* makes and reads its cookies, *keys* says whether their keys are still good."""

    def __init__(self, seal: SessionSeal, keys: KeyStore) -> None:
        self._seal = seal
        self._keys = keys

    def shown(self, headers: Headers) -> BrowserSession | None:
        """Return the session whose cookie a request without any other credential shows, whether or not it goes on."""
        if "authorization" in headers:
            return None
        cookies = headers.get("cookie")
        values = (sent_cookie(cookies, name) for name in self._seal.cookie_names)
        return next((session for value in values if value and (session := self._seal.opened(value))), None)

    def has_name_in(self, headers: Headers) -> bool:
        """Return whether a request has a cookie of ours at all, such as one of a secret that was changed."""
        return any(sent_cookie(headers.get("cookie"), name) for name in self._seal.cookie_names)

    async def principal(self, session: BrowserSession, method: str, headers: Headers) -> Principal:
        """Return who shows *session*; raises ProblemError `origin_refused` or `unauthenticated`."""
        why = refused_site(method, headers)
        if why is not None:
            raise ProblemError(problem("origin_refused", why, remedy=SAME_SITE_REMEDY))
        return principal_of(await self._living(session))

    async def begin(self, key: str, *, secure: bool) -> str:
        """Return the `Set-Cookie` header of a new session of the holder of *key*; raises as for any wrong key."""
        found = split_key(key.strip())
        if found is None:
            raise ProblemError(problem("unauthenticated", "this is not a key of Towpath"))
        await self._keys.principal(*found)
        return await self.begin_for(found[0], secure=secure)

    async def begin_for(self, prefix: str, *, secure: bool) -> str:
        """Return the header for a key that was looked at already; the session is later than any that was ended."""
        looked = await self._keys.stored(prefix, anew=True)
        if looked is None:
            raise ProblemError(problem("unauthenticated", "the key is not known"))
        stored, now = looked
        value, session = self._seal.issue(stored, now)
        life_s = int((session.expires_at - now).total_seconds())
        return set_cookie(self._seal.cookie_names[0 if secure else 1], value, life_s, secure=secure)

    async def end(self, session: BrowserSession | None) -> list[str]:
        """End *session*, whoever has its cookie; return the `Set-Cookie` headers that take the cookies away."""
        if session is not None:
            try:
                await self._living(session)
            except ProblemError as error:
                if error.problem.code != "unauthenticated":
                    raise
            else:
                await self._keys.end_session(session.prefix, session.issued_us, session.oldest_us)
        with_tls, without = self._seal.cookie_names
        return [set_cookie(with_tls, "", 0, secure=True), set_cookie(without, "", 0, secure=False)]

    async def _living(self, session: BrowserSession) -> StoredKey:
        looked = await self._keys.stored(session.prefix)
        stored, now = looked if looked is not None else (None, session.expires_at)
        why = self._seal.refusal(session, stored, now)
        if stored is None or why is not None:
            raise ProblemError(problem("unauthenticated", why or "the key is not known", remedy=SIGN_IN_REMEDY))
        return stored
