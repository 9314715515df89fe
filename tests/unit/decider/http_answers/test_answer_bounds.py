"""What a provider's server sends is read up to a bound, packed or not, whole or in pieces."""

import asyncio
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from towpath_decider.adapters.answer_bounds import MAX_BODY_BYTES, MAX_STREAM_BYTES, client_options
from towpath_decider.adapters.gemini import GeminiProvider
from towpath_decider.adapters.stream_assembly import MAX_PARTS, MAX_STREAMED_CHARS, assemble_message, assemble_stream

EVENTS = "text/event-stream"
GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\3"


class Sent(httpx2.AsyncByteStream):
    """A body of *pieces*, which knows how many of them were taken."""

    def __init__(self, piece: bytes, pieces: int, head: bytes = b"") -> None:
        self._piece = piece
        self._pieces = pieces
        self._head = head
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._head:
            yield self._head
        for _ in range(self._pieces):
            self.taken += 1
            yield self._piece


async def read(body: Sent, **headers: str) -> bytes:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=body))
    async with httpx2.AsyncClient(transport=transport, **client_options()) as client:
        return (await client.get("http://model.example/")).content


@pytest.mark.parametrize(("kind", "most"), [("application/json", MAX_BODY_BYTES), (EVENTS, MAX_STREAM_BYTES)])
async def test_an_answer_without_end_is_left_in_time(kind: str, most: int) -> None:
    piece = b"x" * 65_534 + (b"\n\n" if kind == EVENTS else b"xx")
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


async def test_an_answer_that_unpacks_to_nothing_is_left_in_time() -> None:
    """Unpacked once more, each of its bytes stands for a kilobyte of empty blocks, and takes the loop's time."""
    empty = b"\0\0\0\xff\xff" * 100_000
    once = GZIP_HEAD + empty
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert await read(Sent(once, 1), **headers) == b""
    endless = Sent(empty, 1_000, GZIP_HEAD)
    with pytest.raises(httpx2.ReadError, match="longer"):
        await read(endless, **headers)
    assert endless.taken <= MAX_BODY_BYTES // len(empty) + 2
    twice = Sent(gzip.compress(once), 1)
    for names in ("gzip, gzip", "GZIP,deflate", "identity, gzip, gzip"):
        with pytest.raises(httpx2.ReadError, match="more than once"):
            await read(twice, **{**headers, "content-encoding": names})


async def test_a_body_in_tiny_pieces_leaves_the_loop_to_others() -> None:
    body, taken, over = Sent(b" ", 2_000), [0], asyncio.Event()

    async def look() -> None:
        while not over.is_set():
            taken.append(body.taken)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    try:
        assert await read(body, **{"content-type": "application/json"}) == b" " * 2_000
    finally:
        over.set()
        await looking
    stretches = [later - earlier for earlier, later in itertools.pairwise([*taken, body.taken])]
    assert max(stretches) <= 100, "a hundred are some milliseconds of work"


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"choices": [' + b'{"index": 0},' * 20_000 + b"0]}\n\n",
        b'data: ["' + b'","' * 60_000 + b'"]\n\n',
        b"data: " + b"[" * 20_000 + b"\n\n",
        b"data: 1\n" * 200 + b"\n",
        b"data: 1\r" * 200 + b"\r",
        b"x" * (MAX_BODY_BYTES + 1),
    ],
    ids=["objects", "texts", "levels", "lines", "old lines", "one line"],
)
async def test_an_event_that_takes_long_to_be_read_is_not_read(event: bytes) -> None:
    good = b'data: {"choices": []}\n\n'
    assert await read(Sent(good, 3), **{"content-type": EVENTS}) == 3 * good
    with pytest.raises(httpx2.ReadError):
        await read(Sent(good + event, 1), **{"content-type": EVENTS})
    if b"[" in event:
        whole = event.removeprefix(b"data: ").strip()
        with pytest.raises(httpx2.ReadError, match="values"):
            await read(Sent(whole, 1), **{"content-type": "application/json"})


async def test_a_long_text_has_as_many_commas_and_lines_as_it_likes() -> None:
    body = json.dumps({"choices": [{"message": {"content": "a, [b]\n" * 60_000}}]}).encode()
    assert await read(Sent(body, 1), **{"content-type": "application/json"}) == body
    spread = json.dumps({"choices": []}, indent=1).encode() * 200
    assert await read(Sent(spread, 1), **{"content-type": "application/json"}) == spread


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


async def test_an_event_may_have_a_hundred_ends_of_lines() -> None:
    event = b"data: 1\n" * 101 + b"\n"
    assert await read(Sent(event, 3), **{"content-type": EVENTS}) == 3 * event
    with pytest.raises(httpx2.ReadError, match="lines"):
        await read(Sent(b"data: 1\n" + event, 1), **{"content-type": EVENTS})


async def numbered(make: Callable[[int], Any]) -> AsyncIterator[Any]:
    for number in itertools.count():
        yield make(number)


def one_more_call(number: int) -> Any:
    """Return a chunk of a chat completion that begins another call, which says nothing."""
    call = SimpleNamespace(index=number, function=None)
    delta = SimpleNamespace(content=None, refusal=None, tool_calls=[call])
    return SimpleNamespace(usage=None, choices=[SimpleNamespace(index=0, finish_reason=None, delta=delta)])


def one_more_block(number: int) -> Any:
    begun = SimpleNamespace(to_dict=lambda: {"type": "text", "text": ""})
    return SimpleNamespace(type="content_block_start", index=number, content_block=begun)


def hundred_more_pieces(_: int) -> Any:
    """Return a chunk of Gemini's with one part, which has a hundred pieces of one argument."""
    call = SimpleNamespace(partial_args=[SimpleNamespace(string_value="x", json_path="$.a")] * 100)
    part = SimpleNamespace(function_call=call, text=None, thought=None)
    candidate = SimpleNamespace(finish_reason=None, content=SimpleNamespace(parts=[part]))
    return SimpleNamespace(usage_metadata=None, prompt_feedback=None, candidates=[candidate])


async def test_parts_without_end_are_no_answer_though_they_have_few_characters() -> None:
    """Each of them is made an object of the SDK at the end, while nothing else is decided."""
    kind = SimpleNamespace(construct=lambda **fields: fields)
    told = f"more than {MAX_PARTS} parts"
    with pytest.raises(ValueError, match=told):
        await assemble_stream(numbered(one_more_call), lambda _: None, kind)
    with pytest.raises(ValueError, match=told):
        await assemble_message(numbered(one_more_block), lambda _: None, kind)
    with pytest.raises(ValueError, match=told):
        await GeminiProvider(api_key=None)._assemble_stream(numbered(hundred_more_pieces), lambda _: None)
