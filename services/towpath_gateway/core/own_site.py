"""Where browsers find this gateway, and whether what one sends comes from a page of this gateway.

A site is scheme, host and port (RFC 6454): a page that somebody changed on its way without TLS is another site than
the same address with it. A proxy that ends TLS says by its headers what anybody could say, so none of these is read.
What is set is known; where nothing is, the name of the session's cookie tells whether it was begun with TLS.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from towpath_gateway.core.headers import LOOPBACK_HOSTS, SAFE_METHODS, host_name

_OTHER_SITES = frozenset({"cross-site", "same-site"})


@dataclass(frozen=True, slots=True)
class OwnSite:
    """The site at *origin*; where that is empty, the one that a request names by its Host."""

    origin: str = ""

    @property
    def has_tls(self) -> bool | None:
        """Whether browsers speak TLS to it; None where nobody has said so."""
        return self.origin.startswith("https:") if self.origin else None

    def origin_of(self, host: str | None, *, has_tls: bool) -> str:
        """Return the Origin of pages of this site, as browsers write it; empty where the Host is missing."""
        if self.origin or not host:
            return self.origin
        return f"{'https' if has_tls else 'http'}://{host.lower()}"

    def refused_without_key(self, host: str | None, origin: str | None) -> str | None:
        """Return why a request without a key is refused on an embedded platform, or None.

        Without keys the platform trusts whoever sits at this machine. A web page in that person's browser is somebody
        else: it shows by its Origin, and a name that was rebound to this machine by the Host.
        """
        if host_name(host) not in LOOPBACK_HOSTS:
            return f"the Host {host!r} is not this machine"
        if origin is None or origin.lower() == self.origin_of(host, has_tls=False):
            return None
        return f"the Origin {origin!r} is another site"

    def refused_session(self, method: str, headers: Mapping[str, str], *, has_tls: bool | None) -> str | None:
        """Return why a request is refused that shows no key but the cookie of a session, or None.

        A browser adds the cookie whoever made the request. What changes something has to say by its Origin that a page
        of this very gateway sent it. Other sites of the same domain or machine get the cookie along for reading too, so
        what they fetch is refused; a link on them may be followed. *has_tls* is how the session began; None where it
        begins or ends, and then only the host is compared where nothing is set.
        """
        origin = headers.get("origin")
        if origin is not None:
            sent_with_tls = origin.lower().startswith("https:") if has_tls is None else has_tls
            own = self.origin_of(headers.get("host"), has_tls=sent_with_tls)
            return None if own and origin.lower() == own else f"the Origin {origin!r} is another site than {own!r}"
        if method not in SAFE_METHODS:
            return "the request changes something, and does not say by its Origin which site sent it"
        if headers.get("sec-fetch-site") in _OTHER_SITES and headers.get("sec-fetch-mode") != "navigate":
            return "another site sent this"
        return None
