"""Fetching over HTTP for tools, so that a model can't reach what it should not.

What may be reached is said by `EgressRules`; exactly the address that was checked is connected to; each redirect is
checked like the first address; bytes and seconds have a limit.
"""

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import httpx2

from towpath.errors import ToolError
from towpath.tools.egress_rules import EgressRules

MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
KEEPS_METHOD = frozenset({307, 308})
FORBIDDEN_HEADERS = frozenset({"host", "connection", "transfer-encoding", "content-length", "proxy-authorization"})
TRAVELLING_HEADERS = frozenset(
    {"accept", "accept-language", "content-language", "content-type", "if-modified-since", "range", "user-agent"}
)
"""Headers that a redirect may take to another origin: keys stand in headers of any name."""
HIDDEN_HEADERS = frozenset({"set-cookie", "set-cookie2"})
"""Session secrets have no place in a record that people and models read."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class EgressClient:
    """Fetches what *rules* let it reach; of an answer at most *max_bytes*."""

    rules: EgressRules
    max_bytes: int = 1024 * 1024

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> "FetchedResponse":
        """Do one request and follow its redirects; raises ToolError with a code of its own for every refusal."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(method, url, headers, body)
        except TimeoutError as error:
            message = f"no whole answer within {timeout_s:g} s"
            raise ToolError("http_timeout", message, retryable=True, external=True) from error

    async def _follow(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> "FetchedResponse":
        for _ in range(MAX_REDIRECTS + 1):
            target = await self.resolve(url)
            fetched = await self._once(method, target, headers, body)
            location = fetched.headers.get("location")
            if fetched.status not in REDIRECTS or location is None:
                return fetched
            following = target.url.join(location)
            if fetched.status not in KEEPS_METHOD and method not in {"GET", "HEAD"}:
                method, body = "GET", None
            if body and not _same_origin(following, target.url):
                message = f"{following.host} is another origin, and what was sent is not sent on; ask it directly"
                raise ToolError("http_redirect_with_body", message)
            headers = headers_for(following, target.url, headers)
            url = str(following)
        raise ToolError("http_too_many_redirects", f"more than {MAX_REDIRECTS} redirects")

    async def resolve(self, url: str) -> "EgressTarget":
        """Return where *url* leads, once host and address were checked."""
        parsed = _parse(url)
        port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
        return EgressTarget(url=parsed, address=await self.rules.address_of(parsed.host, port), port=port)

    async def _once(
        self, method: str, target: "EgressTarget", headers: Mapping[str, str], body: bytes | None
    ) -> "FetchedResponse":
        sent = {name: value for name, value in headers.items() if name.lower() not in FORBIDDEN_HEADERS}
        sent["Host"] = target.url.netloc.decode("ascii")
        sent.setdefault("User-Agent", "towpath")
        sent["Accept-Encoding"] = "identity"  # so that a small answer can't unpack into a large one
        extensions = {"sni_hostname": target.url.host}
        try:
            async with (
                httpx2.AsyncClient(verify=_tls(), trust_env=False, follow_redirects=False) as client,
                client.stream(
                    method, target.pinned, headers=sent, content=body, extensions=extensions, timeout=None
                ) as response,
            ):
                data, cut = await _read(response.aiter_raw(), self.max_bytes)
                shown = {name: value for name, value in response.headers.items() if name not in HIDDEN_HEADERS}
                return FetchedResponse(status=response.status_code, headers=shown, data=data, truncated=cut)
        except httpx2.TransportError as error:
            message = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise ToolError("http_failed", message, retryable=True, external=True) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressTarget:
    """A checked place: the URL as written, and the one address to connect to."""

    url: httpx2.URL
    address: str
    port: int

    @property
    def pinned(self) -> httpx2.URL:
        """The URL with the address in place of the name."""
        return self.url.copy_with(host=self.address, port=self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedResponse:
    """An answer; `truncated` when it was longer than the limit."""

    status: int
    headers: dict[str, str]
    data: bytes
    truncated: bool


@functools.cache
def _tls() -> ssl.SSLContext:
    """Load the trusted certificates once: it takes tens of milliseconds."""
    return httpx2.create_ssl_context(trust_env=False)


def _same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


def headers_for(following: httpx2.URL, before: httpx2.URL, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers for a redirect: to another origin only those go that hold no secret."""
    if _same_origin(following, before):
        return headers
    return {name: value for name, value in headers.items() if name.lower() in TRAVELLING_HEADERS}


def _parse(url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ToolError("http_url_invalid", f"the URL can't be read: {error}") from error
    if parsed.scheme not in _DEFAULT_PORTS or not parsed.host:
        raise ToolError("http_url_invalid", "only http:// and https:// addresses with a host can be fetched")
    if parsed.userinfo:
        raise ToolError("http_url_invalid", "a URL with a user name is not fetched; use a header")
    return parsed


async def _read(chunks: AsyncIterator[bytes], most: int) -> tuple[bytes, bool]:
    """Read at most *most* bytes; the rest is not even received."""
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > most:
            return bytes(data[:most]), True
    return bytes(data), False
