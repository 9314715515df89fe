"""An MCP server over streamable HTTP: the SDK speaks the protocol, this side bounds what comes and names what failed.

An answer is read up to a limit and no further. Whatever fails between here and the server becomes a JSON-RPC error of
that one request, whose code says what is known (`error_codes`). No proxy, cookie or password comes from the worker's
environment, and no redirect to another server is followed.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from towpath_contracts.strict_json import has_more_values
from towpath_fabric.http.received_bodies import BodyTooLongError, as_received
from towpath_worker.adapters.mcp.error_codes import LOST, NOT_SENT, REFUSED, SESSION_GONE, TOO_LARGE
from towpath_worker.adapters.mcp.tool_checks import MAX_ANSWER_VALUES

CONNECT_S = 10.0
SESSION_HEADER = "mcp-session-id"


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str], limit: int) -> AsyncIterator[Any]:
    """Speak with the server at *url*, sending *headers* with every request; at most *limit* bytes of an answer."""
    timeout = httpx2.Timeout(CONNECT_S, read=None)  # how long a call may take is the call's own business
    tls = httpx2.create_ssl_context(trust_env=False)
    guarded = ErrorReplyTransport(httpx2.AsyncHTTPTransport(verify=tls, trust_env=False), limit)
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=guarded, trust_env=False) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=limit) as streams,
    ):
        yield streams


class ErrorReplyTransport(httpx2.AsyncBaseTransport):
    """Passes requests on; every failure of a POST becomes an answer that the SDK gives to that request's caller."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*; of a POST every fault becomes a JSON-RPC error."""
        if request.method != "POST":
            response = await self._inner.handle_async_request(request)
            return await self._without_body(request, response)
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _fault(request, NOT_SENT, f"the server can't be reached: {type(error).__name__}")
        except httpx2.TransportError as error:
            return _fault(request, LOST, f"the connection broke: {type(error).__name__}")
        if _is_stream(response):
            return _with_checked_events(request, response, self._limit)
        return await self._read_whole(request, response)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _without_body(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return the answer to a GET or DELETE: its head, and behind that only the events that a GET asks for."""
        if request.method == "GET" and _is_stream(response):
            return _with_checked_events(request, response, self._limit)
        await response.aclose()
        return httpx2.Response(response.status_code, headers=_kept_headers(response), request=request)

    async def _read_whole(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Read an answer that is no event stream, within the limit, and judge its status."""
        data = bytearray()
        try:
            async for piece in as_received(response, request, self._limit).aiter_bytes():
                data += piece
                if len(data) > self._limit:
                    return _fault(request, TOO_LARGE, f"the answer is longer than {self._limit} bytes")
        except BodyTooLongError as error:
            return _fault(request, TOO_LARGE, str(error))
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return _fault(request, LOST, f"the answer broke off: {type(error).__name__}")
        finally:
            await response.aclose()
        if has_more_values(bytes(data), MAX_ANSWER_VALUES):
            return _fault(request, TOO_LARGE, f"the answer has more than {MAX_ANSWER_VALUES} values")
        status = response.status_code
        if status >= 400 and not (_is_json(response) and _is_error(bytes(data))):
            return _refusal(request, status)
        return httpx2.Response(status, headers=_kept_headers(response), content=bytes(data), request=request)


NOTHING_DONE = frozenset({*range(400, 408), *range(410, 418), 421, 422, 423, 424, 426, 428, 429, 431, 451})
"""Statuses that refuse a request before anything is done with it. 408, 409, 425 and what no standard knows (such as
499) also come from what stands between, about a server that may be at work."""

_NOT_KEPT = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})


_EVENT_END = re.compile(rb"\n\n|\r\r|\r\n\r\n")
_LONGEST_END = 4


class _CheckedEvents(httpx2.AsyncByteStream):
    """Passes an event stream on in whole events; raises ReadError at one that is too long, or of too many values."""

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        self._response = response
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for piece in self._response.aiter_bytes():
            looked_at = max(0, len(held) - _LONGEST_END)
            held += piece
            end = max((found.end() for found in _EVENT_END.finditer(held, looked_at)), default=0)
            if end:
                yield self._checked(bytes(held[:end]))
                del held[:end]
            if len(held) > self._limit:
                raise httpx2.ReadError(f"an event is longer than {self._limit} bytes")
        if held:
            yield self._checked(bytes(held))

    def _checked(self, events: bytes) -> bytes:
        if has_more_values(events, MAX_ANSWER_VALUES):
            for event in _EVENT_END.split(events):
                if has_more_values(event, MAX_ANSWER_VALUES):
                    raise httpx2.ReadError(f"an event has more than {MAX_ANSWER_VALUES} values")
        return events

    async def aclose(self) -> None:
        await self._response.aclose()


def _with_checked_events(request: httpx2.Request, response: httpx2.Response, limit: int) -> httpx2.Response:
    stream = _CheckedEvents(as_received(response, request, None), limit)
    return httpx2.Response(response.status_code, headers=_kept_headers(response), stream=stream, request=request)


def _kept_headers(response: httpx2.Response) -> list[tuple[bytes, bytes]]:
    """Return the headers of what was unpacked here, and is not unpacked again."""
    return [(name, value) for name, value in response.headers.raw if name.lower() not in _NOT_KEPT]


def _is_stream(response: httpx2.Response) -> bool:
    """Return whether events come; what does not succeed brings none, and of a redirect the SDK reads the whole body."""
    return response.is_success and response.headers.get("content-type", "").lower().startswith("text/event-stream")


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _is_error(data: bytes) -> bool:
    """Return whether the server itself answered with a JSON-RPC error, as the SDK will read it."""
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(data, by_name=False), JSONRPCError)
    except ValidationError:
        return False


def _refusal(request: httpx2.Request, status: int) -> httpx2.Response:
    if status == 404 and SESSION_HEADER in request.headers:
        return _fault(request, SESSION_GONE, "the server knows this session no more", status)
    code = REFUSED if status in NOTHING_DONE else LOST
    return _fault(request, code, f"the server answered HTTP {status}", status)


def _fault(request: httpx2.Request, code: int, message: str, status: int = 502) -> httpx2.Response:
    """Return an answer with a JSON-RPC error, which the SDK hands to the caller."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(status, json=body, request=request)
