"""The event stream of a run: complete, in order, resumable, and gone at once when the gateway stops."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.gateway.sse import Frame, frames
from tests.support.platform.platform_peer import PeerRun, PlatformPeer
from tests.support.waiting import eventually

from towpath_contracts import rpc, subjects
from towpath_contracts.events.log import LogEntry, NoteAdded, RunStarted, TransitionEvents
from towpath_contracts.problems.registry import problem
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_gateway.adapters.platform_client import CHECK_S, PlatformClient
from towpath_gateway.app import event_stream
from towpath_gateway.app.stream_pace import PageTurns, StreamPace
from towpath_gateway.core.sse import BYE

TASK = {"network": "support", "user_message": "hello"}
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("gateway"), nats_url, embedded="true", max_streams="3") as process:
        asyncio.run(process.wait_ready())
        yield process


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx2.AsyncClient]:
    """A client, once the streams of earlier tests have given their places back."""
    await until_no_stream_is_open(gateway)
    async with gateway.client() as client:
        yield client


async def until_no_stream_is_open(gateway: GatewayProcess) -> None:
    async with asyncio.timeout(60):
        while "towpath_gateway_streams 0.0" not in await gateway.metrics():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)


@pytest.fixture
async def peer(nats_url: str) -> AsyncIterator[PlatformPeer]:
    async with PlatformPeer(nats_url) as peer:
        yield peer


def note(text: str) -> NoteAdded:
    return NoteAdded(step=1, text=text)


async def a_run(client: httpx2.AsyncClient, peer: PlatformPeer) -> PeerRun:
    return peer.runs[uuid.UUID((await client.post("/v1/runs", json=TASK)).json()["run_id"])]


def numbered(found: list[Frame]) -> list[str]:
    """Return the ids of the frames that are events of the run."""
    return [frame.id for frame in found if frame.id is not None]


async def until(stream: AsyncIterator[Frame], event: str) -> list[Frame]:
    """Read frames up to and including the first *event*."""
    found = []
    async for frame in stream:
        found.append(frame)
        if frame.event == event:
            return found
    raise AssertionError(found)


async def test_a_stream_tells_what_was_and_what_happens(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run = await a_run(client, peer)
    await peer.add(run, RunStarted(), note("one"))
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = frames(response)
        past = [await anext(stream) for _ in range(4)]
        assert past[0].retry is not None
        assert numbered(past) == ["1", "2", "3"]
        waits = []
        while not waits or waits[-1] > CHECK_S / 2:  # a busy machine may be late once
            assert len(waits) < 5, f"events are looked up, and not told: {waits}"
            begun = time.monotonic()
            await peer.add(run, note("more"))
            assert (await anext(stream)).id == str(4 + len(waits))
            waits.append(time.monotonic() - begun)
        await peer.finish(run)
        rest, last = await until(stream, "end"), 4 + len(waits)
        assert numbered(rest) == [str(last)]
        assert json.loads(rest[-1].data) == {"run_id": str(run.run_id), "status": "completed", "seq": last}
        assert [frame async for frame in stream] == []
    assert past[2].event == "run_started"
    assert LogEntry.model_validate_json(past[3].data) == run.entries[2]


@pytest.mark.parametrize("by", ["header", "query"])
async def test_a_stream_resumes_after_the_last_event_that_was_seen(
    client: httpx2.AsyncClient, peer: PlatformPeer, by: str
) -> None:
    run = await a_run(client, peer)
    await peer.add(run, RunStarted(), note("one"), note("two"))
    await peer.finish(run)
    headers = {**STREAM, "Last-Event-ID": "3"} if by == "header" else STREAM
    query = "?after=1" if by == "header" else "?after=3"
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events{query}", headers=headers) as response:
        assert numbered(await until(frames(response), "end")) == ["4", "5"]


async def test_lost_repeated_and_reordered_messages_change_nothing(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    run = await a_run(client, peer)
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
        stream = frames(response)
        assert [(await anext(stream)).id for _ in range(2)] == [None, "1"]
        await peer.add(run, RunStarted(), note("2"), note("3"), note("4"), tell=False)
        await peer.tell(run, [run.entries[4]])
        await peer.tell(run, [run.entries[2], run.entries[1]])
        await peer.tell(run, [run.entries[0]])
        await peer.nc.publish(subjects.run_event(run.run_id), b"not an event")
        forged = LogEntry(seq=99, at=run.entries[0].at, event=note("from the future"))
        await peer.nc.publish(
            subjects.run_event(run.run_id),
            TransitionEvents(run_id=run.run_id, project="default", entries=(forged,)).model_dump_json().encode(),
        )
        await peer.finish(run, tell=False)
        assert numbered(await until(stream, "end")) == ["2", "3", "4", "5", "6"]


async def test_a_long_log_comes_whole_and_in_order(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run = await a_run(client, peer)
    await peer.add(run, *(note(str(number)) for number in range(1_200)), tell=False)
    await peer.finish(run)
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
        assert numbered(await until(frames(response), "end")) == [str(seq) for seq in range(1, 1_203)]


async def test_large_events_come_in_smaller_pages(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run = await a_run(client, peer)
    await peer.add(run, *(note(str(number) + "x" * 60_000) for number in range(40)), tell=False)
    await peer.finish(run)
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
        assert numbered(await until(frames(response), "end")) == [str(seq) for seq in range(1, 43)]
    page = (await client.get(f"/v1/runs/{run.run_id}/events?limit=1000")).json()
    assert 0 < len(page["entries"]) < page["seq"] == 42


async def test_a_silent_stream_is_kept_open(
    nats_url: str, peer: PlatformPeer, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.2)
    run = await a_run(client, peer)
    settings = Settings.load(nats_url=nats_url)
    bus = Bus("gateway", settings)
    await bus.connect()
    stopping = asyncio.Event()
    try:
        platform = PlatformClient(bus, stopping, SpanRecorder("gateway", settings))
        first = await platform.page("default", run.run_id, 0)
        framing, turns = event_stream.SingleRunFraming(run.run_id), PageTurns(StreamPace())
        stream = event_stream.RunStream(platform, "default", first, framing, turns).frames()
        assert (await anext(stream)).startswith(b"retry:")
        assert (await anext(stream)).startswith(b"id: 1\n")
        begun = time.monotonic()
        assert [await anext(stream) for _ in range(3)] == [b": ping\n\n"] * 3
        assert 0.5 < time.monotonic() - begun < 30  # three pauses of what is usual are 45 s
        stopping.set()
        assert [frame async for frame in stream] == [BYE]
    finally:
        await bus.close()


async def test_dropping_a_stream_stops_nothing(
    gateway: GatewayProcess, client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    run = await a_run(client, peer)
    for _ in range(5):  # more than may be open at once: a dropped stream gives its place back
        async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
            assert (await anext(frames(response))).retry is not None
        await until_no_stream_is_open(gateway)
    assert peer.requests(rpc.CANCEL_RUN.subject) == []


async def test_too_many_streams_are_refused(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run = await a_run(client, peer)
    path = f"/v1/runs/{run.run_id}/events"
    async with (
        client.stream("GET", path, headers=STREAM) as one,
        client.stream("GET", path, headers=STREAM) as two,
        client.stream("GET", path, headers=STREAM) as three,
    ):
        assert [response.status_code for response in (one, two, three)] == [200, 200, 200]
        refused = await client.get(path, headers=STREAM)
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert (await client.get(path)).status_code == 200  # pages cost nothing that lasts


async def test_a_stream_takes_its_share_before_its_first_page_is_read(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    """Otherwise any number of them could stand before a platform that is slow to answer."""
    run = await a_run(client, peer)
    path, answered = f"/v1/runs/{run.run_id}/events", asyncio.Event()

    async def late(_body: object) -> object:
        await answered.wait()
        return problem("run_not_found", "it is gone meanwhile")

    peer.answers[rpc.EVENTS.subject] = late
    async with asyncio.TaskGroup() as group:
        opening = [group.create_task(client.get(path, headers=STREAM)) for _ in range(3)]
        await eventually(lambda: len(peer.requests(rpc.EVENTS.subject)) == 3)
        refused = await client.get(path, headers=STREAM)
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert len(peer.requests(rpc.EVENTS.subject)) == 3, "who is refused asks nothing of the platform"
        answered.set()
    assert [task.result().status_code for task in opening] == [404, 404, 404]
    peer.answers.clear()
    async with client.stream("GET", path, headers=STREAM) as response:
        assert response.status_code == 200, "and gives it back where there is nothing to stream"


async def test_a_page_of_events_is_json(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run = await a_run(client, peer)
    await peer.add(run, RunStarted(), note("one"))
    page = (await client.get(f"/v1/runs/{run.run_id}/events?after=1&limit=1")).json()
    assert [entry["seq"] for entry in page["entries"]] == [2]
    assert (page["seq"], page["status"]) == (3, "running")


@pytest.mark.parametrize(
    ("headers", "code"), [({"Last-Event-ID": "x"}, "request_invalid"), ({"Last-Event-ID": "77"}, "request_invalid")]
)
async def test_a_foreign_event_id_is_refused(
    client: httpx2.AsyncClient, peer: PlatformPeer, headers: dict[str, str], code: str
) -> None:
    run = await a_run(client, peer)
    answer = await client.get(f"/v1/runs/{run.run_id}/events", headers={**STREAM, **headers})
    assert (answer.status_code, answer.json()["code"]) == (422, code)


async def test_a_stream_of_no_run_is_a_problem(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    answer = await client.get(f"/v1/runs/{uuid.uuid4()}/events", headers=STREAM)
    assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found")


async def test_a_stream_outlives_the_orchestrator(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run = await a_run(client, peer)
    async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
        stream = frames(response)
        assert [(await anext(stream)).id for _ in range(2)] == [None, "1"]
        peer.answers[rpc.EVENTS.subject] = problem("unavailable", "starting")
        await peer.finish(run)
        assert (await anext(stream)).id == "2"
        await asyncio.sleep(2.5)
        peer.answers.clear()
        assert (await until(stream, "end"))[-1].event == "end"


async def test_a_stopping_gateway_says_goodbye_to_fifty_streams_and_fifty_pages_at_once(
    nats_server: Nats, tmp_path: Path
) -> None:
    with gateway_process(tmp_path, nats_server.url(), embedded="true", stop_grace_s="60") as gateway:
        await gateway.wait_ready()
        async with PlatformPeer(nats_server.url()) as peer, gateway.client() as client:
            run = await a_run(client, peer)
            opened = asyncio.Semaphore(0)

            async def follow(path: str) -> list[Frame]:
                found = []
                async with gateway.client() as own, own.stream("GET", path, headers=STREAM) as response:
                    async for frame in frames(response):
                        found.append(frame)
                        if frame.id == "1" or frame.event in {"live", "cut"}:
                            opened.release()
                return found

            paths = [f"/v1/runs/{run.run_id}/events", "/console/live?page=/runs"] * 50
            followers = [asyncio.create_task(follow(path)) for path in paths]
            for _ in followers:
                await opened.acquire()
            waiting = asyncio.create_task(client.post("/v1/runs", json=TASK, headers={"Prefer": "wait=30"}))
            await asyncio.sleep(0.2)
            begun = time.monotonic()
            gateway.terminate()
            ended = await asyncio.gather(*followers)
            assert time.monotonic() - begun < 25
            assert {found[-1].event for found in ended} == {"bye"}
            assert {found[-1].retry for found in ended[::2]} == {500}
            again = [found[-1].retry for found in ended[1::2]]
            assert all(again) and len(set(again)) > 10, "open pages do not all come back at the same time"
            assert (await waiting).status_code == 202  # an accepted run is not kept from its caller
            await eventually(lambda: gateway.process.poll() is not None)
            assert time.monotonic() - begun < 25  # nobody waited for the grace of a minute, or for the run


async def test_streams_and_waits_survive_a_broker_that_dies(nats_server: Nats, tmp_path: Path) -> None:
    with gateway_process(tmp_path, nats_server.url(), embedded="true") as gateway:
        await gateway.wait_ready()
        async with PlatformPeer(nats_server.url()) as peer, gateway.client() as client:
            run = await a_run(client, peer)
            async with client.stream("GET", f"/v1/runs/{run.run_id}/events", headers=STREAM) as response:
                stream = frames(response)
                assert [(await anext(stream)).id for _ in range(2)] == [None, "1"]
                nats_server.process.kill()
                nats_server.process.wait()
                refused = await client.post("/v1/runs", json=TASK)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
                assert (await client.get("/readyz")).status_code == 503
                await nats_server.start()
                await peer.add(run, RunStarted(), tell=False)
                assert (await anext(stream)).id == "2"
                await eventually(lambda: peer.nc.is_connected)
                await peer.finish(run)
                assert numbered(await until(stream, "end")) == ["3"]
