"""What a provider's server sends is read up to a bound, packed or not, whole or in pieces."""

import gzip
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from towpath_decider.adapters.answer_bounds import MAX_BODY_BYTES, MAX_STREAM_BYTES, client_options
from towpath_decider.adapters.stream_assembly import MAX_STREAMED_CHARS, assemble_message, assemble_stream

EVENTS = "text/event-stream"


class Sent(httpx2.AsyncByteStream):
    """A body of *pieces*, which knows how many of them were taken."""

    def __init__(self, piece: bytes, pieces: int) -> None:
        self._piece = piece
        self._pieces = pieces
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._pieces):
            self.taken += 1
            yield self._piece


async def read(body: Sent, **headers: str) -> bytes:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=body))
    async with httpx2.AsyncClient(transport=transport, **client_options()) as client:
        return (await client.get("http://model.example/")).content


@pytest.mark.parametrize(("kind", "most"), [("application/json", MAX_BODY_BYTES), (EVENTS, MAX_STREAM_BYTES)])
async def test_an_answer_without_end_is_left_in_time(kind: str, most: int) -> None:
    piece = b"x" * 65_536
    whole = Sent(piece, most // len(piece))
    assert len(await read(whole, **{"content-type": kind})) == most
    endless = Sent(piece, 1_000_000)
    with pytest.raises(httpx2.ReadError, match="longer"):
        await read(endless, **{"content-type": kind})
    assert endless.taken <= most // len(piece) + 2


async def test_a_packed_answer_is_unpacked_and_bounded_by_what_it_holds() -> None:
    small = gzip.compress(b'{"choices": []}')
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert await read(Sent(small, 1), **headers, **{"content-length": str(len(small))}) == b'{"choices": []}'
    with pytest.raises(httpx2.ReadError, match="longer"):
        await read(Sent(gzip.compress(b" " * (MAX_BODY_BYTES + 1)), 1), **headers)


async def pieces_of(*made: Any) -> AsyncIterator[Any]:
    while True:
        for piece in made:
            yield piece


async def test_a_text_that_comes_in_pieces_without_end_is_no_answer() -> None:
    heard: list[str] = []
    kind = SimpleNamespace(construct=lambda **fields: fields)
    call = SimpleNamespace(index=0, function=SimpleNamespace(name="", arguments="a" * 5_000))
    for delta in ({"content": "t" * 5_000}, {"refusal": "r" * 5_000}, {"tool_calls": [call]}):
        fields = {"content": None, "refusal": None, "tool_calls": None, **delta}
        choice = SimpleNamespace(index=0, finish_reason=None, delta=SimpleNamespace(**fields))
        with pytest.raises(ValueError, match="no end"):
            await assemble_stream(pieces_of(SimpleNamespace(usage=None, choices=[choice])), heard.append, kind)
    for more in (
        {"type": "text_delta", "text": "t" * 5_000},
        {"type": "input_json_delta", "partial_json": "j" * 5_000},
    ):
        event = SimpleNamespace(type="content_block_delta", index=0, delta=SimpleNamespace(**more))
        with pytest.raises(ValueError, match="no end"):
            await assemble_message(pieces_of(event), heard.append, kind)
    assert sum(map(len, heard)) <= 2 * MAX_STREAMED_CHARS
