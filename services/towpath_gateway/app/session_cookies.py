"""Cookies of people who signed in with a key: who is let in by one, and how one begins and ends.

A cookie stands for its key in everything: scopes, roles, shares and the audit are the key's. Each request looks at the
key as it is now, so whoever revokes it ends its sessions.
"""

from typing import NamedTuple

from starlette.datastructures import Headers

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.adapters.key_store import KeyStore
from towpath_gateway.core.api_keys import Principal, StoredKey, principal_of, split_key
from towpath_gateway.core.browser_sessions import BrowserSession, SessionSeal, set_cookie
from towpath_gateway.core.headers import sent_cookie
from towpath_gateway.core.own_site import OwnSite

SAME_SITE_REMEDY = "Use the pages of this gateway, or send a key: Authorization: Bearer KEY."
SIGN_IN_REMEDY = "Sign in at /sign-in, or send a key: Authorization: Bearer KEY."


class ShownSession(NamedTuple):
    """A session whose cookie a request shows; `has_tls` by the name of the cookie, which browsers keep for TLS."""

    session: BrowserSession
    has_tls: bool


class SessionCookies:
    """The sessions of a gateway: *seal* makes and reads its cookies, *keys* says whether their keys are still good.

    Where browsers speak TLS to *site*, only cookies count that are for this host alone: any other host of its domain,
    and whoever changes pages on their way without TLS, could plant one of the other name.
    """

    def __init__(self, seal: SessionSeal, keys: KeyStore, site: OwnSite) -> None:
        self._seal = seal
        self._keys = keys
        self.site = site
        with_tls, without = seal.cookie_names
        known = ((with_tls, True), (without, False))
        self._names = tuple(one for one in known if site.has_tls in {None, one[1]})

    def shown(self, headers: Headers) -> ShownSession | None:
        """Return the session whose cookie a request without any other credential shows, whether or not it goes on."""
        if "authorization" in headers:
            return None
        cookies = headers.get("cookie")
        for name, has_tls in self._names:
            session = self._seal.opened(sent_cookie(cookies, name))
            if session is not None:
                return ShownSession(session, has_tls)
        return None

    def has_name_in(self, headers: Headers) -> bool:
        """Return whether a request has a cookie of ours at all, such as one of a secret that was changed."""
        return any(sent_cookie(headers.get("cookie"), name) for name in self._seal.cookie_names)

    def own_origin(self, headers: Headers) -> str:
        """Return the Origin of our pages for the browser that sent *headers*."""
        shown = self.shown(headers)
        has_tls = headers.get("origin", "").lower().startswith("https:") if shown is None else shown.has_tls
        return self.site.origin_of(headers.get("host"), has_tls=has_tls)

    async def principal(self, shown: ShownSession, method: str, headers: Headers) -> Principal:
        """Return who shows a session; raises ProblemError `origin_refused` or `unauthenticated`."""
        why = self.site.refused_session(method, headers, has_tls=shown.has_tls)
        if why is not None:
            raise ProblemError(problem("origin_refused", why, remedy=SAME_SITE_REMEDY))
        return principal_of(await self._living(shown.session))

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

    async def end(self, shown: ShownSession | None) -> list[str]:
        """End what is *shown*, whoever has its cookie; return the `Set-Cookie` headers that take the cookies away."""
        if shown is not None:
            session = shown.session
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
