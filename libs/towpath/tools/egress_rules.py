"""Which addresses of a network a tool, or a program of one in a sandbox, may reach.

Only hosts that are allowed by name, and ports where the list names some; a name is resolved once, and the address that
is returned is the one to connect to; addresses that are not public are refused, also inside IPv6 forms, unless the host
is allowed to have one; and never a port of the platform itself.
"""

import asyncio
import errno
import ipaddress
import re
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from towpath.declared_places import checks_keywords
from towpath.errors import ToolError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "fec0::/10"))
)
"""Not public, though Python's tables may say so: services of Azure, metadata of Oracle, relays of 6to4, documentation,
and site-local addresses."""
_WITH_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_WRITTEN = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9*_.-]+)(?::(?P<port>\d{1,5}))?")
_MAX_PORT = 65_535

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRules:
    """What may be reached. Patterns are host names, `*.example.com` for all below one, `*` for every public host.

    With `:PORT` behind it a pattern is for that port alone. *own_ports* returns the ports of the platform itself on
    this machine, or None where nobody can say: then no address of this machine is reached. *broker_ports* are the
    broker's, wherever it is: no address that is not public is reached there. *list_name* is what the list of *allowed*
    is called where its reader can change it.
    """

    allowed: tuple[str, ...] = ()
    allowed_private: tuple[str, ...] = ()
    own_ports: Callable[[], Collection[int] | None] = frozenset
    broker_ports: Collection[int] = ()
    list_name: str = "TOWPATH_HTTP_ALLOW"

    async def address_of(self, host: str, port: int) -> str:
        """Return the address to connect to, once host and address were checked; raises ToolError for every refusal."""
        name = host.lower().rstrip(".")
        if not _matches(name, port, self.allowed):
            hint = f"Only hosts named in {self.list_name} can be reached, at the ports that it names."
            raise ToolError("http_host_not_allowed", f"the host {name} is not allowed at port {port}", hint=hint)
        private = _matches(name, port, self.allowed_private)
        for address in await _addresses(name, port):
            if is_public(address) or private:
                self._refuse_own_port(address, port)
                return str(address)
        raise ToolError("http_address_not_allowed", f"the host {name} has no public address")

    def _refuse_own_port(self, address: Address, port: int) -> None:
        here = _is_of_this_machine(address)  # public ones too: services may listen at every address of their machine
        own = self.own_ports() if here else frozenset()
        is_brokers = port in self.broker_ports and (here or not is_public(address))
        if own is None or port in own or is_brokers:
            raise ToolError("http_address_not_allowed", f"port {port} of {address} may be the platform's own")


@checks_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """What the program of one sandbox may hold of its way out: connections at once, and of each bytes and seconds.

    *start_s* is for its request, and for reaching the server; *idle_s* for a pause in which nothing goes either way.
    """

    max_connections: int = 32
    max_bytes: int = 256 * 1024 * 1024
    start_s: float = 10
    idle_s: float = 300
    max_s: float = 3_600


DEFAULT_LIMITS = EgressLimits()


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a setting, which separates them by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def pattern_faults(patterns: Collection[str]) -> list[str]:
    """Return what is wrong with the patterns that can't be meant: a URL, a user name, no port that there is."""
    return [f"{one!r} is no HOST or HOST:PORT" for one in patterns if not _is_written_well(one)]


def _is_written_well(pattern: str) -> bool:
    found = _WRITTEN.fullmatch(pattern)
    return found is not None and (found["port"] is None or 1 <= int(found["port"]) <= _MAX_PORT)


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
