"""The HTTP side of a server: whatever fails becomes an error whose code says what is known."""

import gzip
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
from towpath_worker.adapters.mcp.tool_checks import MAX_ANSWER_VALUES

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


class Untold(httpx2.AsyncByteStream):
    """A body that nobody should read."""

    def __init__(self) -> None:
        self.read = self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.read = True
        yield b"x"

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("method", "status", "kind"),
    [
        ("GET", 405, "text/plain"),
        ("GET", 307, "text/event-stream"),
        ("DELETE", 405, "text/plain"),
        ("DELETE", 200, "text/event-stream"),
    ],
)
async def test_of_an_answer_that_nobody_reads_only_the_head_is_taken(method: str, status: int, kind: str) -> None:
    """The SDK reads the whole answer to the DELETE that ends a session, and of a redirect, however long it is."""
    body, request = Untold(), httpx2.Request(method, "https://server.example/mcp")
    network = Network(httpx2.Response(status, headers={"allow": "POST", "content-type": kind}, stream=body))
    response = await ErrorReplyTransport(network, LIMIT).handle_async_request(request)
    assert (await response.aread(), response.status_code, response.headers["allow"]) == (b"", status, "POST")
    assert (body.read, body.closed) == (False, True)


async def test_a_redirect_that_calls_itself_an_event_stream_is_read_within_the_limit() -> None:
    moved = answered(307, b": \n\n" * LIMIT, "text/event-stream")
    assert json.loads((await posted(moved)).content)["error"]["code"] == TOO_LARGE


EMPTY_BLOCKS = b"\x1f\x8b\x08\0\0\0\0\0\0\3" + b"\0\0\0\xff\xff" * 1_000


async def test_an_answer_that_unpacks_to_nothing_is_left_in_time() -> None:
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    sent = httpx2.Response(200, headers=packed, stream=httpx2.ByteStream(EMPTY_BLOCKS))
    assert json.loads((await posted(sent)).content)["error"]["code"] == TOO_LARGE
    twice = {**packed, "content-encoding": "gzip, gzip"}
    again = httpx2.Response(200, headers=twice, stream=httpx2.ByteStream(gzip.compress(EMPTY_BLOCKS)))
    assert json.loads((await posted(again)).content)["error"]["code"] == LOST
    events = {**twice, "content-type": "text/event-stream"}
    streamed = httpx2.Response(200, headers=events, stream=httpx2.ByteStream(gzip.compress(EMPTY_BLOCKS)))
    with pytest.raises(httpx2.ReadError, match="more than once"):
        await (await posted(streamed)).aread()


async def test_a_server_s_own_words_pass() -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}}'
    assert (await posted(answered(400, body))).content == body
    assert (await posted(answered(200, b'{"ok": true}'))).json() == {"ok": True}
    streamed = answered(200, b"event: message\n\n", "text/event-stream")
    assert await (await posted(streamed)).aread() == b"event: message\n\n"


MANY = b'{"a": [' + b",".join([b"0"] * (MAX_ANSWER_VALUES + 1)) + b"]}"


async def test_an_answer_of_too_many_values_is_too_large_however_it_comes() -> None:
    request = httpx2.Request("POST", "https://server.example/mcp")
    for method in ("POST", "GET"):
        asked = httpx2.Request(method, "https://server.example/mcp")
        network = Network(answered(200, b"data: 1\n\ndata: " + MANY + b"\n\n", "text/event-stream"))
        response = await ErrorReplyTransport(network, 10 * len(MANY)).handle_async_request(asked)
        with pytest.raises(httpx2.ReadError, match="values"):
            await response.aread()
    response = await ErrorReplyTransport(Network(answered(200, MANY)), 10 * len(MANY)).handle_async_request(request)
    assert json.loads(await response.aread())["error"]["code"] == TOO_LARGE


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n"])
async def test_events_are_passed_on_whole_and_as_they_came(end: bytes) -> None:
    sent = b"data: one" + end + b"data: two" + end + b"data: three"
    pieces = [sent[place : place + 1] for place in range(len(sent))]
    streamed = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(*pieces))
    response = await posted(streamed)
    passed = [piece async for piece in response.aiter_raw()]
    assert passed == [b"data: one" + end, b"data: two" + end, b"data: three"]


async def test_an_event_without_end_is_not_gathered_without_end() -> None:
    streamed = httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, stream=Pieces(*[b"x" * LIMIT] * 1_000)
    )
    response = await posted(streamed)
    with pytest.raises(httpx2.ReadError, match="longer"):
        await response.aread()
