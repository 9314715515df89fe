"""Streams of whole trees, of what models write, and of readers that do not read, at the gateway."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import pytest_asyncio
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.gateway.sse import Frame, frames, raw_request, read_whole
from tests.support.platform.platform_peer import PeerRun, PlatformPeer
from tests.support.tcp_proxy import tcp_proxy
from tests.support.waiting import all_sent, eventually

from towpath import Client, RefusedError
from towpath_contracts import subjects
from towpath_contracts.decisions.decision import FinishInstruction
from towpath_contracts.decisions.request import TokenDelta
from towpath_contracts.events.log import (
    ChildEnded,
    ChildStarted,
    DecisionReceived,
    DecisionRequested,
    InstructionIssued,
    NoteAdded,
    RunQuarantined,
    RunStarted,
)
from towpath_contracts.runs.children import ChildTask
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_gateway.adapters.event_feed import MAX_DELTAS, TokenFeed
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.event_stream import RunStream, RunTreeFraming
from towpath_gateway.app.stream_pace import PageTurns, StreamPace
from towpath_readings.stream.tree import TreeEntry

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = {"Accept": "text/event-stream"}
BEGUN = '{"action":"RESPOND","action_reasoning":"","action_details":{"payload":{"message":"'


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("gateway"), nats_url, embedded="true") as process:
        asyncio.run(process.wait_ready())
        yield process


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with gateway.client() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def peer(nats_url: str) -> AsyncIterator[PlatformPeer]:
    async with PlatformPeer(nats_url) as peer:
        yield peer


def note(text: str) -> NoteAdded:
    return NoteAdded(step=1, text=text)


def a_run(peer: PlatformPeer, project: str = "default") -> PeerRun:
    task = SubmitTask(network="support", user_message="hello")
    run = PeerRun(run_id=uuid.uuid4(), project=project, caller="anonymous", task=task)
    peer.runs[run.run_id] = run
    return run


def begins(child: PeerRun, agent: str, index: int = 0) -> ChildStarted:
    task = ChildTask(agent_key=agent, user_message="look")
    return ChildStarted(child_id=child.run_id, step=1, index=index, task=task)


def ends(child: PeerRun, index: int = 0) -> ChildEnded:
    return ChildEnded(child_id=child.run_id, step=1, index=index, status="completed")


async def read(client: httpx2.AsyncClient, run: PeerRun, query: str, last: str = "") -> list[Frame]:
    headers = {**STREAM, "Last-Event-ID": last} if last else STREAM
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events?{query}", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return [frame async for frame in frames(response) if frame.retry is None]


def told(found: list[Frame]) -> list[tuple[uuid.UUID, int]]:
    entries = [TreeEntry.model_validate_json(one.data) for one in found if one.id is not None]
    return [(one.run_id, one.seq) for one in entries]


async def test_b12_a_tree_is_streamed_with_paths_while_it_grows(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    """Row B12 across children: a child's events follow its start, with its path; its end comes after all of them."""
    root, child, deep = a_run(peer), a_run(peer), a_run(peer)
    await peer.add(root, RunStarted(), begins(child, "research"))
    reading = asyncio.create_task(read(client, root, "children=true"))
    await peer.add(child, RunStarted(), begins(deep, "b"), tell=False)
    await peer.add(root, ends(child))  # told before the end of the child is
    await peer.add(deep, RunStarted(), note("deep"))
    await peer.finish(deep, tell=False)
    await peer.add(child, ends(deep))
    await peer.finish(child)
    await peer.finish(root)
    found = await asyncio.wait_for(reading, 60)
    assert json.loads(found[-1].data) == {"run_id": str(root.run_id), "status": "completed", "seq": 4}
    entries = [TreeEntry.model_validate_json(one.data) for one in found if one.id is not None]
    assert {(one.run_id, one.path) for one in entries} == {
        (root.run_id, ()),
        (child.run_id, ("research",)),
        (deep.run_id, ("research", "b")),
    }
    for run in (root, child, deep):
        assert [one.seq for one in entries if one.run_id == run.run_id] == list(range(1, len(run.entries) + 1))
    assert told(found)[-2:] == [(root.run_id, 3), (root.run_id, 4)], "the end of the child waited for its log"


async def test_b12_a_tree_stream_ends_though_a_child_is_parked(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    """Row B12 across children: a parked child holds up neither its parent's events nor the end, and is told."""
    root, child = a_run(peer), a_run(peer)
    parked = ends(child).model_copy(update={"status": "quarantined", "child_seq": 2})
    await peer.add(root, RunStarted(), begins(child, "a"), parked, note("goes on"), tell=False)
    await peer.finish(root, tell=False)
    await peer.add(child, RunStarted(), RunQuarantined(code="execution_conflict", message=""), note("x"), tell=False)
    child.status = "quarantined"
    found = await asyncio.wait_for(read(client, root, "children=1"), 60)
    assert json.loads(found[-1].data)["status"] == "completed" and found[-1].event == "end"
    whole = [one for one in found if one.id is not None]
    runs = (root.run_id, 1), (root.run_id, 2), (child.run_id, 1), (child.run_id, 2), (root.run_id, 3)
    assert [one for one in told(whole) if one in runs] == list(runs)
    assert sorted(told(whole)) == sorted((run.run_id, one.seq) for run in (root, child) for one in run.entries)
    for place, frame in enumerate(whole):
        rest = await asyncio.wait_for(read(client, root, "children=1", frame.id or ""), 60)
        assert sorted(told(whole[: place + 1]) + told(rest)) == sorted(told(whole)), place


async def test_b12_a_tree_stream_resumes_at_every_event_without_loss_or_repeat(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    root, first, second = a_run(peer), a_run(peer), a_run(peer)
    await peer.add(root, RunStarted(), begins(first, "a"), begins(second, "b", 1), note("x"), tell=False)
    for child in (first, second):
        await peer.add(child, RunStarted(), note("y"), tell=False)
        await peer.finish(child, tell=False)
    await peer.add(root, ends(second, 1), ends(first), tell=False)
    await peer.finish(root, tell=False)
    whole = [one for one in await read(client, root, "children=1") if one.id is not None]
    for place, frame in enumerate(whole):
        assert frame.id is not None
        rest = await read(client, root, "children=1", frame.id)
        assert sorted(told(whole[: place + 1]) + told(rest)) == sorted(told(whole)), place


async def test_b12_a_cursor_of_another_stream_shows_nothing_that_is_not_below_the_run(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    root, foreign = a_run(peer), a_run(peer, "elsewhere")
    await peer.add(root, RunStarted(), begins(foreign, "a"), tell=False)
    await peer.add(foreign, note("secret"), tell=False)
    await peer.add(root, ends(foreign), tell=False)
    await peer.finish(root, tell=False)
    found = await read(client, root, "children=true")
    assert {run for run, _ in told(found)} == {root.run_id} and "secret" not in str(found)
    path = f"/v1/runs/{root.run_id}/events"
    for query, headers in (
        ("?children=true", {**STREAM, "Last-Event-ID": "7"}),
        ("?children=true&after=3", STREAM),
        ("?children=true", {}),
        ("?deltas=true", {}),
    ):
        refused = await client.get(f"{path}{query}", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid"), query
    assert (await client.get(f"/v1/runs/{foreign.run_id}/events?children=true", headers=STREAM)).status_code == 404


async def write(
    peer: PlatformPeer, run: PeerRun, asked: uuid.UUID, *texts: str, attempt: int = 1, first: int = 0
) -> None:
    """Publish pieces of one call of a model, from the one with the index *first* on."""
    for index, text in enumerate(texts, first):
        piece = TokenDelta(
            run_id=run.run_id, request_id=asked, attempt=attempt, index=index, text=text, writer=f"w{attempt}", step=1
        )
        await peer.nc.publish(subjects.run_tokens(run.run_id), piece.model_dump_json().encode())
    await all_sent(peer.nc)


def asks(asked: uuid.UUID) -> DecisionRequested:
    return DecisionRequested(request_id=asked, step=1, epoch=0, agent_key="a", model="m:m")


def answers(asked: uuid.UUID, message: str) -> tuple[Any, ...]:
    made = {"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": {"message": message}}}
    finish = FinishInstruction(payload={"message": message})
    return (
        DecisionReceived(request_id=asked, step=1, epoch=0, agent_key="a", decision=made),
        InstructionIssued(step=1, epoch=0, agent_key="a", instruction=finish),
    )


async def until_told(stream: AsyncIterator[Frame], event: str) -> list[Frame]:
    found: list[Frame] = []
    async for frame in stream:
        found.append(frame)
        if frame.event == event:
            return found
    raise AssertionError(found)


async def test_b12_a_retried_call_supersedes_its_text_and_no_viewer_sees_two_answers(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    """Row B12: deltas in order; a later attempt takes back what was told, late pieces are dropped, the log ends it."""
    root, child, asked = a_run(peer), a_run(peer), uuid.uuid4()
    await peer.add(root, RunStarted(), begins(child, "writer"))
    await peer.add(child, RunStarted(), asks(asked))
    path = f"/v1/runs/{root.run_id}/events?children=true&deltas=true"
    async with client.stream("GET", path, headers=STREAM) as response:
        stream = frames(response)
        await until_told(stream, "decision_requested")
        await write(peer, child, asked, BEGUN, "wro", "ng")
        listed = [await until_told(stream, "delta") for _ in range(2)]
        assert [json.loads(one[-1].data)["text"] for one in listed] == ["wro", "ng"]
        await write(peer, child, asked, BEGUN + "ri", "ght", attempt=2)
        again = await until_told(stream, "superseded")
        assert json.loads(again[-1].data) | {"step": 1} == {
            "type": "superseded",
            "seq": 0,
            "step": 1,
            "request_id": str(asked),
            "attempt": 1,
            "reason": "asked_again",
            "run_id": str(child.run_id),
            "path": ["writer"],
        }
        await write(peer, child, asked, BEGUN + "late")
        await peer.add(child, *answers(asked, "right"))
        await write(peer, child, asked, BEGUN + "later", attempt=3)
        await peer.finish(child)
        await peer.add(root, ends(child))
        await peer.finish(root)
        rest = await until_told(stream, "end")
    text = "".join(json.loads(one.data)["text"] for one in rest if one.event == "delta")
    assert text == "right"[: len(text)] and "superseded" not in [one.event for one in rest]
    assert all(one.id is None for one in (*again, *rest) if one.event in {"delta", "superseded"})
    assert all(one.event not in {"delta", "superseded"} for one in await read(client, root, "children=true"))


async def test_b12_what_was_sent_of_an_answer_before_a_cut_is_taken_back(
    gateway: GatewayProcess, peer: PlatformPeer
) -> None:
    """Row B12: a viewer that was cut off has no two answers before it either."""
    run, asked = a_run(peer), uuid.uuid4()
    await peer.add(run, RunStarted(), asks(asked))
    listed: list[str] = []
    port = urlsplit(gateway.url).port or 0
    async with tcp_proxy(port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as sdk:

        async def follow() -> None:
            async for one in sdk.stream(run.run_id, event_types=["text", "step"], deltas=True):
                word = getattr(one, "text", "") or getattr(one, "reason", "") or one.type
                listed.append(word)

        following = asyncio.create_task(follow())
        await eventually(lambda: listed == ["step"])
        await write(peer, run, asked, BEGUN + "half")
        await eventually(lambda: listed[-1] == "half")
        proxy.cut()
        await eventually(lambda: listed[-1] == "interrupted" and proxy.connections >= 2)
        await peer.add(run, *answers(asked, "the whole"))
        await peer.finish(run)
        await asyncio.wait_for(following, 60)
    assert listed == ["step", "half", "interrupted", "the whole", "step"]


async def test_b12_of_pieces_that_nobody_takes_only_the_last_are_kept(nats_url: str, peer: PlatformPeer) -> None:
    bus, run, told = Bus("gateway", Settings.load(nats_url=nats_url)), a_run(peer), asyncio.Event()
    await bus.connect()
    pieces = TokenFeed(bus, run.run_id, told)
    try:
        await pieces.open()
        await all_sent(bus.nc)
        asked, last = uuid.uuid4(), f'"index":{3 * MAX_DELTAS - 1},'.encode()
        until = monotonic() + 60
        while not (pieces._waiting and last in pieces._waiting[-1]) and monotonic() < until:
            await write(peer, run, asked, *("x" * 3 * MAX_DELTAS))  # the broker keeps none for a connection that broke
            await asyncio.sleep(0.5)
        kept = pieces.take()
        assert told.is_set() and (len(kept), kept[-1].index) == (MAX_DELTAS, 3 * MAX_DELTAS - 1)
    finally:
        await pieces.close()
        await bus.close()


async def test_b12_a_client_takes_a_tree_up_where_it_was_cut(gateway: GatewayProcess, peer: PlatformPeer) -> None:
    """Row B12: resumption of a tree from the SDK, without loss or repeat."""
    root, child = a_run(peer), a_run(peer)
    await peer.add(root, RunStarted(), begins(child, "a"))
    await peer.add(child, RunStarted())
    seen: list[tuple[uuid.UUID, int]] = []
    port = urlsplit(gateway.url).port or 0
    async with tcp_proxy(port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as sdk:

        async def follow() -> None:
            async for one in sdk.events(root.run_id, children=True):
                assert isinstance(one, TreeEntry)
                seen.append((one.run_id, one.seq))

        following = asyncio.create_task(follow())
        for round_ in range(2):
            await eventually(lambda: (child.run_id, len(child.entries)) in seen)
            proxy.open = False
            proxy.cut()
            await peer.add(child, note(f"while it was cut {round_}"))
            proxy.open = True
        await peer.finish(child)
        await peer.add(root, ends(child))
        await peer.finish(root)
        await asyncio.wait_for(following, 60)
        assert proxy.connections >= 3
    assert sorted(seen) == sorted((run.run_id, one.seq) for run in (root, child) for one in run.entries)
    async with Client(gateway.url) as sdk:
        words = [one async for one in sdk.stream(root.run_id, children=True, event_types=["status"])]
        assert {one.path for one in words} == {(), ("a",)} and words[-1].path == ()
        with pytest.raises(RefusedError, match="leave it out"):
            _ = [one async for one in sdk.events(root.run_id, 3, children=True)]


async def test_a_client_that_goes_away_leaves_no_subscription_behind(nats_url: str, peer: PlatformPeer) -> None:
    """The task of such a client is cancelled at every await, until it ends."""
    root, child = a_run(peer), a_run(peer)
    await peer.add(root, RunStarted(), begins(child, "a"), tell=False)
    await peer.add(child, RunStarted(), tell=False)
    settings = Settings.load(nats_url=nats_url)
    bus = Bus("gateway", settings)
    await bus.connect()
    try:
        platform = PlatformClient(bus, asyncio.Event(), SpanRecorder("gateway", settings))
        first = await platform.page("default", root.run_id, 0)
        asked = len(bus.nc._subs)
        turns = PageTurns(StreamPace())
        stream = RunStream(platform, "default", first, RunTreeFraming(root.run_id, {}), turns, deltas=True)

        async def follow() -> None:
            async for _ in stream.frames():
                pass

        following = asyncio.create_task(follow())
        await eventually(lambda: len(bus.nc._subs) == asked + 4)
        while not following.done():
            following.cancel()
            await asyncio.sleep(0)
        await eventually(lambda: len(bus.nc._subs) == asked)
    finally:
        await bus.close()


async def test_b12_a_reader_that_does_not_read_stalls_nothing_and_misses_no_event(
    gateway: GatewayProcess, client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    """Row B12: a slow reader stalls nothing: its deltas are dropped, its log comes whole at its own pace."""
    run, asked, written, large = a_run(peer), uuid.uuid4(), 300, 60
    await peer.add(run, RunStarted(), tell=False)
    path = f"/v1/runs/{run.run_id}/events?deltas=true"
    with raw_request(gateway.url, path) as lazy:
        await peer.add(run, *(note(f"<{number}>" + "x" * 100_000) for number in range(large)), asks(asked), tell=False)
        async with client.stream("GET", path, headers=STREAM) as response:
            stream = frames(response)
            await asyncio.wait_for(until_told(stream, "decision_requested"), 60)
            await write(peer, run, asked, BEGUN + "w")
            await asyncio.wait_for(until_told(stream, "delta"), 60)
            await write(peer, run, asked, *("o" for _ in range(written)), first=1)
            await peer.add(run, *answers(asked, "w" + "o" * written))
            await peer.finish(run)
            rest = await asyncio.wait_for(until_told(stream, "end"), 60)
            assert [one.id for one in rest if one.id is not None] == [str(large + place) for place in (3, 4, 5)]
        data = await asyncio.wait_for(asyncio.to_thread(read_whole, lazy), 120)
    ids = [int(line[4:]) for line in data.split(b"\n") if line.startswith(b"id: ")]
    assert ids == list(range(1, large + 6))
    assert data.count(b"event: delta") < written, "what it had no time for was dropped"
