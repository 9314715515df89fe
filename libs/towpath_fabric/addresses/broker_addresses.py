"""Where a broker is: one address, or with commas between them those of the nodes of a cluster.

Each address is looked at before anything connects: a client takes one that it can't read for a broker that is not there
yet, and would try again for ever. What is wrong is told with the place in the list and never with the text, which may
hold a password.
"""

from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

SCHEMES = ("nats", "tls")
"""`tls` demands TLS, of every node of the list."""

DEFAULT_PORT = 4222
"""Of an address that names none."""

EXAMPLE = "nats://one:4222,nats://two:4222,nats://three:4222"


class BrokerAddressError(ValueError):
    """Text that names no broker; the message says which part, and how it is written."""


def broker_addresses(text: str) -> tuple[str, ...]:
    """Return the addresses that *text* lists, each once and with its scheme; raises BrokerAddressError."""
    listed = [part.strip() for part in text.split(",")]
    if not any(listed):
        raise BrokerAddressError(f"names no broker; write {EXAMPLE}")
    found = [_address(part, f"address {number} of {len(listed)}") for number, part in enumerate(listed, 1)]
    return tuple(dict.fromkeys(found))


def broker_places(text: str) -> Iterator[SplitResult]:
    """Yield the addresses that *text* lists, read as far as they can be: what can't is left out."""
    for part in text.split(","):
        try:
            yield _split(part.strip())
        except ValueError:
            continue


def _split(address: str) -> SplitResult:
    parts = urlsplit(address if "://" in address else f"nats://{address}")
    _ = parts.port, parts.hostname  # both are read when they are asked for
    return parts


def _address(text: str, place: str) -> str:
    if not text:
        raise BrokerAddressError(f"{place} is empty: take a comma away, or write {EXAMPLE}")
    try:
        parts = _split(text)
    except ValueError:  # its text quotes what may be a password
        remedy = "a port is a number up to 65535, and in a password , is %2C, @ is %40, / is %2F, : is %3A"
        raise BrokerAddressError(f"{place} can't be read: {remedy}") from None
    if parts.scheme not in SCHEMES:
        raise BrokerAddressError(f"{place} begins with neither nats:// nor tls://; write {EXAMPLE}")
    if parts.port == 0 or not parts.hostname or any(letter.isspace() for letter in text):
        raise BrokerAddressError(f"{place} has no host, a blank, or the port 0; write nats://host:4222")
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        raise BrokerAddressError(f"{place} has a login that ends early; in a password / is %2F, ? is %3F, # is %23")
    return parts.geturl()
