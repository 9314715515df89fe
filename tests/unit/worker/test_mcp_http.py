"""The HTTP side of a server: whatever fails becomes an error whose code says what is known."""

import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from towpath_worker.adapters.mcp.error_codes import (
    CERTAINLY_NOT,
    LOST,
    NOT_SENT,
    REFUSED,
    SESSION_GONE,
    TOO_LARGE,
    UNCERTAIN,
)
from towpath_worker.adapters.mcp.http import SESSION_HEADER, ErrorReplyTransport

LIMIT = 1_000


class Network(httpx2.AsyncBaseTransport):
    """What lies behind: it answers, or fails."""

    def __init__(self, does: httpx2.Response | Exception) -> None:
        self._does = does

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if isinstance(self._does, Exception):
            raise self._does
        return self._does


class Broken(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"jsonrpc"'
        raise httpx2.ReadError("reset")


def answered(status: int, body: bytes = b"", kind: str = "application/json") -> httpx2.Response:
    return httpx2.Response(status, headers={"content-type": kind}, content=body)


async def posted(does: httpx2.Response | Exception, **headers: str) -> httpx2.Response:
    request = httpx2.Request("POST", "https://server.example/mcp", headers=headers)
    return await ErrorReplyTransport(Network(does), LIMIT).handle_async_request(request)


@pytest.mark.parametrize(
    ("does", "headers", "code"),
    [
        (httpx2.ConnectError("refused"), {}, NOT_SENT),
        (httpx2.ConnectTimeout("slow"), {}, NOT_SENT),
        (httpx2.ReadError("reset"), {}, LOST),
        (httpx2.RemoteProtocolError("gone"), {}, LOST),
        (answered(401, b"who are you"), {}, REFUSED),
        (answered(404, b"not here"), {}, REFUSED),
        (answered(404, b"not here"), {SESSION_HEADER: "s1"}, SESSION_GONE),
        (answered(429, b"too many"), {}, REFUSED),
        (answered(408, b"too slow"), {}, LOST),
        (answered(409, b"conflict"), {}, LOST),
        (answered(425, b"too early"), {}, LOST),
        (answered(499, b"gone"), {}, LOST),
        (answered(460, b"gone"), {}, LOST),
        (answered(500, b"oh no"), {}, LOST),
        (answered(502, b'{"error": {"code": 502, "message": "a proxy"}}'), {}, LOST),
        (answered(502, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "x"}}', "text/html"), {}, LOST),
        (answered(404, b'{"error": {"code": 404, "message": "gone"}}'), {SESSION_HEADER: "s1"}, SESSION_GONE),
        (answered(503, b"busy", "text/event-stream"), {}, LOST),
        (answered(200, b"x" * (LIMIT + 1)), {}, TOO_LARGE),
        (httpx2.Response(200, headers={"content-type": "application/json"}, stream=Broken()), {}, LOST),
    ],
)
async def test_a_fault_becomes_an_error_of_this_request_alone(
    does: httpx2.Response | Exception, headers: dict[str, str], code: int
) -> None:
    parsed = json.loads((await posted(does, **headers)).content)
    assert parsed["error"]["code"] == code
    assert not CERTAINLY_NOT & UNCERTAIN


async def test_a_server_s_own_words_pass() -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}}'
    assert (await posted(answered(400, body))).content == body
    assert (await posted(answered(200, b'{"ok": true}'))).json() == {"ok": True}
    streamed = answered(200, b"event: message\n\n", "text/event-stream")
    assert await posted(streamed) is streamed
