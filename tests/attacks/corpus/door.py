"""Attacks on the gateway's port: floods, slow clients, one key that takes everything."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from statistics import median
from urllib.parse import urlsplit

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import Target

from towpath_fabric.clock import monotonic

LONGEST_S = 2.0
"""What half of a user's answers may take: a second, and the rest is for machines that do something else."""

SLOWEST_S = 10.0
"""What any answer may take: one may stand behind the refusal of all that the attack has sent."""

ASKED = 20
FLOOD = 2_030
STREAMS = 1_050
SPARE_FILES = 200

NONSENSE = "Authorization: Bearer nonsense\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
HALF_REQUEST = f"POST /v1/runs HTTP/1.1\r\nHost: towpath\r\n{NONSENSE}\r\n{{".encode()
HALF_HEADERS = f"POST /v1/runs HTTP/1.1\r\nHost: towpath\r\n{NONSENSE}".encode()

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _connections(target: Target, count: int, begin: bytes) -> AsyncIterator[list[Connection]]:
    """Give *count* connections on which *begin* was sent, or as many as this process may open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    address = urlsplit(target.url)
    opened: list[Connection] = []
    try:
        for _ in range(min(count, most - SPARE_FILES)):
            connection = await asyncio.open_connection(address.hostname, address.port)
            connection[1].write(begin)
            opened.append(connection)
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await asyncio.sleep(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))


async def _wait_of_a_user(client: httpx2.AsyncClient) -> str:
    """Ask as a user; return what the slowest answer took."""
    seconds = []
    for _ in range(ASKED):
        began = monotonic()
        answer = await client.get("/v1/runs")
        seconds.append(monotonic() - began)
        if not answer.is_success:
            raise AttackWorkedError(f"a user is answered {answer.status_code}: {answer.json()['code']}")
    if median(seconds) > LONGEST_S or max(seconds) > SLOWEST_S:
        raise AttackWorkedError(f"a user waits {median(seconds):.1f} s, at most {max(seconds):.1f} s")
    return f"the slowest of {ASKED} answers to a user took {max(seconds) * 1000:.0f} ms"


async def _flood(target: Target, begin: bytes) -> str:
    async with _connections(target, FLOOD, begin) as opened, target.client() as client:
        told = await _wait_of_a_user(client)
        return f"{told}, beside {len(opened)} connections"


@attack(Position.OUTSIDER, timed=True)
async def half_requests_without_a_key(target: Target) -> str:
    """Begin 2,030 requests with a nonsense key, and never send the rest of their bodies."""
    return await _flood(target, HALF_REQUEST)


@attack(Position.OUTSIDER, timed=True)
async def half_headers(target: Target) -> str:
    """Begin the headers of 2,030 requests, and never end them."""
    return await _flood(target, HALF_HEADERS)


@attack(Position.OUTSIDER, timed=True)
async def silent_connections(target: Target) -> str:
    """Open 2,030 connections, and send nothing."""
    return await _flood(target, b"")


@attack(Position.OUTSIDER)
async def a_body_that_drips(target: Target) -> str:
    """Send bodies a byte at a time on 300 connections with a nonsense key, and have an answer wait for their ends."""
    async with _connections(target, 300, HALF_REQUEST) as opened, target.client() as client:

        async def drip() -> None:
            while True:
                for _, writer in opened:
                    writer.write(b" ")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        try:
            heads = [await asyncio.wait_for(reader.readuntil(b"\r\n"), SLOWEST_S) for reader, _ in opened]
            told = await _wait_of_a_user(client)
        except TimeoutError:
            raise AttackWorkedError("the gateway waits for a body before it looks at the key") from None
        finally:
            dripping.cancel()
            with suppress(asyncio.CancelledError):
                await dripping
    if any(b" 401 " not in head for head in heads):
        raise AttackWorkedError(f"answered {set(heads)}")
    return f"401 before the body; {told}"


@attack(Position.OUTSIDER, timed=True)
async def cookies_that_take_long_to_be_read(target: Target) -> str:
    """Send sixteen cookies of 30 KB of backslashes without a key, which some versions of Python unquote for seconds."""
    cookie = "\\" * 30_000
    head = f'GET /problems HTTP/1.1\r\nHost: towpath\r\nCookie: x="{cookie}"\r\n\r\n'
    async with _connections(target, 16, head.encode()), target.client() as client:
        return await _wait_of_a_user(client)


@attack(Position.KEY_HOLDER, timed=True)
async def forms_of_very_many_fields(target: Target) -> str:
    """Send twenty forms of half a million empty fields to the console at once, with a key that may only read."""
    async with target.client(scopes=["runs:read"]) as reader, target.client(project="bystander") as other:
        headers = {"Origin": target.url, "Content-Type": "application/x-www-form-urlencoded"}
        form = b"a&" * 500_000
        sent = [asyncio.create_task(reader.post("/runs/bulk", content=form, headers=headers)) for _ in range(20)]
        await asyncio.sleep(0.1)
        told = await _wait_of_a_user(other)
        codes = {answer.status_code for answer in await asyncio.gather(*sent)}
    return f"{told}; forms are answered {codes}"


@attack(Position.KEY_HOLDER, timed=True)
async def streams_of_one_key(target: Target) -> str:
    """Open 1,050 event streams with a key that may only read; another key asks, and follows a run."""
    key = await target.key("watcher", scopes=["runs:read"])
    async with target.client() as client:
        waiting = await target.run(client, [("desk.refund", {"order": "7", "amount": 9999})], "Refund order 7.")
        path = f"/v1/runs/{waiting['run_id']}/events"
        begin = (
            f"GET {path} HTTP/1.1\r\nHost: towpath\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n"
        )
        async with _connections(target, STREAMS, begin.encode()) as opened:
            heads = [await reader.readuntil(b"\r\n") for reader, _ in opened]
            told = await _wait_of_a_user(client)
            async with client.stream("GET", path, headers={"Accept": "text/event-stream"}) as stream:
                if not stream.is_success:
                    raise AttackWorkedError(f"another key gets no stream: {stream.status_code}")
    refused = sum(b" 429 " in head for head in heads)
    return f"{refused} of {len(heads)} streams were refused; {told}"
