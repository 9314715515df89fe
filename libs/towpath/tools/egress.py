"""Fetching over HTTP for tools, so that a model can't reach what it should not.

Only hosts that are allowed by name, and ports where the list names some; a name is resolved once and exactly that
address is connected to; addresses that are not public are refused, also inside IPv6 forms, unless the host is allowed
to have one, and then never the platform's own ports; each redirect is checked like the first address; bytes and seconds
have a limit.
"""

import asyncio
import errno
import functools
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import httpx2

from towpath.errors import ToolError

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
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SPECIAL = tuple(map(ipaddress.ip_network, ("168.63.129.16/32", "192.0.0.0/24", "3fff::/20")))
"""Not public, though Python's tables may say so: Azure's own services, Oracle's metadata, documentation."""
_WITH_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_DEFAULT_PORTS = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressClient:
    """What may be reached. Patterns are host names, `*.example.com` for all below one, `*` for every public host.

    With `:PORT` behind it a pattern is for that port alone. *own_ports* returns the ports of the platform itself on
    this machine, or None where nobody can say: then no address of this machine is reached. *broker_port* is the
    broker's, wherever it is: no address that is not public is reached there.
    """

    allowed: tuple[str, ...] = ()
    allowed_private: tuple[str, ...] = ()
    max_bytes: int = 1024 * 1024
    own_ports: Callable[[], Collection[int] | None] = frozenset
    broker_port: int | None = None

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
            headers = headers_for(following, target.url, headers)
            url = str(following)
        raise ToolError("http_too_many_redirects", f"more than {MAX_REDIRECTS} redirects")

    async def resolve(self, url: str) -> "EgressTarget":
        """Return where *url* leads, once host and address were checked."""
        parsed = _parse(url)
        host = parsed.host.lower().rstrip(".")
        port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
        if not _matches(host, port, self.allowed):
            hint = "Only hosts named in TOWPATH_HTTP_ALLOW can be reached, at the ports that it names."
            raise ToolError("http_host_not_allowed", f"the host {host} is not allowed at port {port}", hint=hint)
        for address in await _addresses(host, port):
            if is_public(address):
                return EgressTarget(url=parsed, address=str(address), port=port)
            if _matches(host, port, self.allowed_private):
                self._refuse_own_port(address, port)
                return EgressTarget(url=parsed, address=str(address), port=port)
        raise ToolError("http_address_not_allowed", f"the host {host} has no public address")

    def _refuse_own_port(self, address: Address, port: int) -> None:
        own = self.own_ports() if _is_of_this_machine(address) else frozenset()
        if own is None or port in own or port == self.broker_port:
            raise ToolError("http_address_not_allowed", f"port {port} of {address} may be the platform's own")

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


def is_public(address: Address) -> bool:
    """Return whether *address* lies on the public network, looking into the IPv6 forms that carry an IPv4 address."""
    inner = _carried(address)
    if inner is not None:
        return is_public(inner)
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _is_of_this_machine(address: Address) -> bool:
    """Return whether *address* leads here: a socket can be bound to those of this machine's interfaces only."""
    inner = _carried(address)
    if inner is not None:
        return _is_of_this_machine(inner)
    if address.is_unspecified or address.is_loopback:
        return True
    family = socket.AF_INET if isinstance(address, ipaddress.IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((str(address), 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL  # whatever else: nobody can say
    return True


def _carried(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def headers_for(following: httpx2.URL, before: httpx2.URL, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers for a redirect: to another origin only those go that hold no secret."""
    if (following.scheme, following.netloc) == (before.scheme, before.netloc):
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


def _matches(host: str, port: int, patterns: tuple[str, ...]) -> bool:
    for pattern in patterns:
        name, of_port = _split_port(pattern.lower())
        if fnmatchcase(host, name) and of_port in {None, port}:
            return True
    return False


def _split_port(pattern: str) -> tuple[str, int | None]:
    """Return the host and the port of a pattern; an IPv6 address with a port stands in brackets."""
    found = _WITH_PORT.fullmatch(pattern)
    name, port = (found["host"], int(found["port"])) if found else (pattern, None)
    return name.removeprefix("[").removesuffix("]"), port


async def _addresses(host: str, port: int) -> list[Address]:
    """Resolve *host* once, in the order the system gives."""
    try:
        found: list[Any] = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: a name that can't be written for the resolver
        message = f"the host {host} has no address: {error}"
        raise ToolError("http_host_unknown", message, retryable=True, external=True) from error
    return [ipaddress.ip_address(entry[4][0].partition("%")[0]) for entry in found]


async def _read(chunks: AsyncIterator[bytes], most: int) -> tuple[bytes, bool]:
    """Read at most *most* bytes; the rest is not even received."""
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > most:
            return bytes(data[:most]), True
    return bytes(data), False
