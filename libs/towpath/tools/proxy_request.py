"""What a program in a sandbox asks its egress proxy for: where to, and what is passed on there.

A request is read strictly and written anew: whatever two readers could take for different places is refused, because
the proxy has to mean the same place as the server behind it.
"""

import re
from dataclasses import dataclass
from typing import Final

import h11

from towpath.errors import ToolError

INVALID: Final = "http_url_invalid"

_PLACE: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]{0,252})(?::(?P<port>\d{1,5}))?")
_ABSOLUTE: Final = re.compile(r"[Hh][Tt][Tt][Pp]://(?P<place>[^/?#]+)(?P<path>[/?][^#]*)?")
_MAX_PORT: Final = 65_535
_HTTP: Final = 80
_OF_ONE_HOP: Final = frozenset(
    {
        *(b"connection", b"proxy-connection", b"keep-alive", b"upgrade", b"te", b"trailer"),
        *(b"proxy-authorization", b"proxy-authenticate"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """Where a program wants to; *head* is what its server is sent, None for a tunnel (CONNECT)."""

    host: str
    port: int
    head: h11.Request | None = None


def proxy_request(asked: h11.Request) -> ProxyRequest:
    """Return what *asked* means; raises ToolError `http_url_invalid` for what is not plain."""
    target = asked.target.decode("ascii", "replace")
    path = None
    if asked.method == b"CONNECT":
        place = _place(target, default_port=None)
    else:
        found = _ABSOLUTE.fullmatch(target)
        if found is None:
            raise ToolError(INVALID, "a proxy is asked for http://HOST/…, and for all else with CONNECT HOST:PORT")
        place, path = _place(found["place"], default_port=_HTTP), found["path"] or "/"
    for name, value in asked.headers:
        if name == b"host" and _place(value.decode("ascii", "replace"), default_port=place[1]) != place:
            raise ToolError(INVALID, "the Host header names another place than the request")
    head = None if path is None else _passed_on(asked, place, path if path.startswith("/") else f"/{path}")
    return ProxyRequest(host=place[0].removeprefix("[").removesuffix("]"), port=place[1], head=head)


def _place(text: str, *, default_port: int | None) -> tuple[str, int]:
    """Return host and port; no user name, no path, nothing that is not ASCII gets through."""
    found = _PLACE.fullmatch(text)
    port = default_port if found is None or found["port"] is None else int(found["port"])
    if found is None or port is None or not 1 <= port <= _MAX_PORT:
        raise ToolError(INVALID, "a place is HOST:PORT, without a user name")
    return found["host"].lower(), port


def _passed_on(asked: h11.Request, place: tuple[str, int], path: str) -> h11.Request:
    """Return the request as its server gets it: its own Host, one request, and nothing that was for the proxy."""
    named = {
        token.strip().lower() for name, value in asked.headers if name == b"connection" for token in value.split(b",")
    }
    chunked = any(name == b"transfer-encoding" for name, _ in asked.headers)
    dropped = {b"host", *_OF_ONE_HOP, *named - {b"transfer-encoding", b"content-length"}}
    if chunked:
        dropped.add(b"content-length")  # a server that believes it would find a second request in the body
    host, port = place
    authority = host if port == _HTTP else f"{host}:{port}"
    kept = [(name, value) for name, value in asked.headers if name not in dropped]
    headers = [(b"Host", authority.encode()), *kept, (b"Connection", b"close")]
    return h11.Request(method=asked.method, target=path.encode(), headers=headers)
