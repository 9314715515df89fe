"""The client against a real gateway and a real orchestrator: the same promises over HTTP and over NATS."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from nats.aio.msg import Msg
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.gateway.web import Asked, response, web
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, respond, use
from tests.support.service_process import service_process
from tests.support.tcp_proxy import tcp_proxy
from tests.support.waiting import all_sent

from towpath import (
    Agent,
    Client,
    Network,
    NotFoundError,
    RefusedError,
    RunFailedError,
    RunTimeoutError,
    UnavailableError,
    run,
)
from towpath.errors import DeclarationError
from towpath_contracts import rpc
from towpath_contracts.events.log import RunFinished
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.subjects import TASK_SUBMIT_ANONYMOUS
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder


@dataclass
class Platform:
    """A broker, an orchestrator and a gateway; the decider and TAS are played by the test."""

    nats_url: str
    gateway: GatewayProcess

    def address(self, way: str) -> str:
        return self.gateway.url if way == "http" else self.nats_url


@pytest.fixture(scope="module")
def platform(postgres_dsn: str, template_database: str) -> Iterator[Platform]:
    name = f"towpath_client_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(postgres_dsn)
    dsn = urlunsplit((parts.scheme, parts.netloc, f"/{name}", parts.query, ""))
    asyncio.run(statement(postgres_dsn, f'CREATE DATABASE "{name}" TEMPLATE "{template_database}"'))
    with temporary_folder() as folder:
        server = Nats(folder / "nats")
        asyncio.run(server.start())
        try:
            with (
                service_process("orchestrator", folder, server.url(), database_url=dsn, embedded="1"),
                gateway_process(folder, server.url(), embedded="1") as gateway,
            ):
                asyncio.run(gateway.wait_ready())
                asyncio.run(publish(server.url()))
                yield Platform(server.url(), gateway)
        finally:
            asyncio.run(server.stop())
    asyncio.run(statement(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)'))


async def statement(dsn: str, text: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(text)
    finally:
        await connection.close()


async def publish(nats_url: str) -> None:
    async with connected(nats_url) as nc:
        peers = Peers(nc, three_steps)
        await peers.start()
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
        await peers.stop()


def three_steps(request: Any) -> dict[str, Any]:
    return use(f"step {request.step}") if request.step < 3 else respond("done")


@pytest.fixture
async def peers(platform: Platform) -> AsyncIterator[Peers]:
    async with connected(platform.nats_url) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


@pytest.fixture(params=["http", "nats"])
async def client(request: pytest.FixtureRequest, platform: Platform) -> AsyncIterator[Client]:
    async with Client(platform.address(request.param)) as client:
        yield client


@pytest.mark.parametrize(("client", "caller"), [("http", "local"), ("nats", "anonymous")], indirect=["client"])
async def test_a_run_comes_back_finished(client: Client, peers: Peers, caller: str) -> None:
    view = await client.run("solo", "hello", labels={"team": "shop"}, timeout="60s")
    assert (view.status, view.final) == ("completed", {"message": "done"})
    assert (view.caller, view.labels) == (caller, {"team": "shop"})
    assert await client.get(str(view.run_id)) == view


async def test_a_submitted_run_is_awaited_and_its_events_are_read_once_in_order(client: Client, peers: Peers) -> None:
    accepted = await client.submit("solo", "hello")
    entries = [entry async for entry in client.events(accepted.run_id)]
    view = await client.result(accepted.run_id, 60)
    assert [entry.seq for entry in entries] == list(range(1, view.seq + 1))
    assert isinstance(entries[-1].event, RunFinished)
    later = [entry.seq async for entry in client.events(accepted.run_id, after=3)]
    assert later == list(range(4, view.seq + 1))


async def test_events_come_while_the_run_goes_on(client: Client, peers: Peers) -> None:
    peers.answer_tools = False
    accepted = await client.submit("solo", "hello")
    seen: list[str] = []
    async with asyncio.timeout(60):
        async for entry in client.events(accepted.run_id):
            seen.append(entry.event.type)
            if entry.event.type == "instruction_issued":
                assert (await client.get(accepted.run_id)).status not in FINAL_STATUSES
                await client.cancel(accepted.run_id, "seen enough")
    assert seen[-1] == "run_finished"
    assert (await client.get(accepted.run_id)).status == "cancelled"


async def test_waiting_has_an_end_and_the_run_goes_on(client: Client, peers: Peers) -> None:
    peers.answer_tools = False
    accepted = await client.submit("solo", "hello")
    with pytest.raises(RunTimeoutError) as caught:
        await client.result(accepted.run_id, "500ms")
    assert caught.value.code == "timeout"
    assert caught.value.problem.run_id == str(accepted.run_id)
    assert (await client.get(accepted.run_id)).status not in FINAL_STATUSES
    await client.cancel(accepted.run_id)
    assert (await client.result(accepted.run_id, 60)).status == "cancelled"


async def test_a_run_ends_at_the_deadline_that_its_caller_names(client: Client, peers: Peers) -> None:
    peers.answer_tools = False
    accepted = await client.submit("solo", "hello", deadline="500ms")
    assert accepted.timeout_ms == 500
    ended = await client.result(accepted.run_id, 60)
    assert (ended.status, ended.reason) == ("timed_out", "deadline_exceeded")
    with pytest.raises(RefusedError, match="deadline: 'soon' is not a duration"):
        await client.submit("solo", "hello", deadline="soon")


async def test_the_same_key_gives_the_same_run(client: Client, peers: Peers) -> None:
    key = uuid.uuid4().hex
    first = await client.submit("solo", "hello", idempotency_key=key)
    again = await client.submit("solo", "hello", idempotency_key=key)
    assert (again.run_id, again.duplicate) == (first.run_id, True)
    with pytest.raises(RefusedError, match="idempotency_conflict"):
        await client.submit("solo", "something else", idempotency_key=key)


async def test_refusals_say_what_is_wrong_and_what_to_do(client: Client, peers: Peers) -> None:
    with pytest.raises(NotFoundError) as missing:
        await client.get(uuid.uuid4())
    assert (missing.value.code, missing.value.retryable) == ("run_not_found", False)
    assert missing.value.remedy
    with pytest.raises(NotFoundError, match="run_not_found"):
        _ = [entry async for entry in client.events(uuid.uuid4())]
    with pytest.raises(NotFoundError, match="network_not_found"):
        await client.submit("nowhere", "hello")
    with pytest.raises(RefusedError) as invalid:
        await client.submit("solo", "hello", max_steps=0, wrong=1)
    assert {one.pointer for one in invalid.value.problem.errors} == {"/max_steps", "/wrong"}
    with pytest.raises(RefusedError, match="not a run id"):
        await client.get("42")


async def test_b1_f4_run_in_its_three_forms_over_http_and_nats(platform: Platform, peers: Peers) -> None:
    for way in ("http", "nats"):
        server = platform.address(way)
        assert (await run("solo", "hello", server=server, timeout=60)).status == "completed"
        events = [entry.event.type async for entry in run.stream("solo", "hello", server=server)]
        assert (events[0], events[-1]) == ("run_created", "run_finished")
        assert (await asyncio.to_thread(run.sync, "solo", "hello", server=server)).status == "completed"


async def test_a14_a_task_stands_below_the_span_that_its_caller_is_in(platform: Platform, peers: Peers) -> None:
    """Row A14: the client names the span of the caller's code over both ways, and any NATS client by a header."""
    trace, header = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    context = SpanContext(int(trace, 16), 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    for way in ("http", "nats"):
        async with Client(platform.address(way)) as client:
            with use_span(NonRecordingSpan(context)):
                accepted = await client.submit("solo", "hello", idempotency_key=f"traced-{way}")
            again = await client.submit("solo", "hello", idempotency_key=f"traced-{way}")
            ended = await client.result(accepted.run_id, 60)
        assert (accepted.trace_id, ended.trace_id, ended.status) == (trace, trace, "completed")
        assert (again.run_id, again.trace_id, again.duplicate) == (accepted.run_id, trace, True), (
            "the key is of the task"
        )
    async with Client(platform.gateway.url) as client:
        assert [one.trace_id for one in (await client.runs(limit=2)).runs] == [trace, trace]
    async with connected(platform.nats_url) as nc:
        task = SubmitTask(network="solo", user_message="hello").model_dump_json(exclude_none=True).encode()
        answer = await nc.request(TASK_SUBMIT_ANONYMOUS, task, 10, headers={"traceparent": header})
        assert RunAccepted.model_validate_json(answer.data).trace_id == trace
        ignored = await nc.request(TASK_SUBMIT_ANONYMOUS, task, 10, headers={"traceparent": "nonsense"})
        alone = RunAccepted.model_validate_json(ignored.data)
        assert alone.trace_id == alone.run_id.hex


async def test_a_network_that_is_handed_over_is_published_and_run(platform: Platform, peers: Peers) -> None:
    agent = Agent("a", prompt="You are {agent_key}.", tools=["echo"], default=True, can_respond=True)
    spec = Network("handed", [agent], max_steps=7)
    view = await run(spec, "hello", server=platform.gateway.url)
    assert (view.network, view.version, view.max_steps, view.status) == ("handed", 1, 7, "completed")
    again = await run(spec, "hello", server=platform.gateway.url)
    assert again.version == 1


async def test_b1_an_agent_alone_is_run_with_instructions_that_a_function_writes(
    platform: Platform, peers: Peers
) -> None:
    """Row B1: run() in the SDK, with an agent whose instructions are a callable."""
    alone = Agent("lonely", prompt=lambda: "You are {agent_key}, and it is {today}.".replace("{today}", "Monday"))
    view = await run(alone, "hello", server=platform.gateway.url)
    assert (view.network, view.agent_key, view.version, view.status) == ("lonely", "lonely", 1, "completed")
    async with Client(platform.gateway.url) as client:
        snapshot = (await client.networks.show("lonely")).snapshot
    assert snapshot is not None and snapshot.agents["lonely"].prompt == "You are {{ agent_key }}, and it is Monday."
    with pytest.raises(DeclarationError, match="its function returned int"):
        await run(Agent("wrong", prompt=lambda: 7), "hello", server=platform.gateway.url)  # type: ignore[arg-type, return-value]


async def test_b12_a_run_is_streamed_in_the_words_of_a_conversation(platform: Platform, peers: Peers) -> None:
    """Row B12: stream of text, tool_call, tool_result, step, …; order, `detailed` flag, filter; error, then raised."""
    for way in ("http", "nats"):
        server = platform.address(way)
        found = [one async for one in run.stream("solo", "hello", detailed=True, server=server)]
        kinds = [one.type for one in found if one.type in {"tool_call", "tool_result", "step", "text"}]
        assert kinds == [*("step", "tool_call", "tool_result", "step") * 2, "step", "text", "step"], way
        assert [one.status for one in found if one.type == "status"][:2] == ["starting", "running"]
        assert (found[-1].type, found[-1].step) == ("status", 3)
        brief = [one.type async for one in run.stream("solo", "hello", detailed=False, server=server)]
        assert brief == ["tool_call", "tool_call", "text"]
    listed = []
    with pytest.raises(RunFailedError, match="max_steps_exceeded"):
        async for one in run.stream("solo", "hello", detailed=False, max_steps=1, server=platform.gateway.url):
            listed.append(one)  # noqa: PERF401 - what came before it was raised
    assert [one.type for one in listed] == ["tool_call", "error"]
    with pytest.raises(RefusedError, match="a stream has no mood"):
        _ = [one async for one in run.stream("solo", "hello", detailed=True, event_types=["mood"])]


async def test_a3_a_version_is_one_above_the_last_and_a_run_takes_the_one_it_names(
    platform: Platform, peers: Peers
) -> None:
    """Row A3: an immutable version (max + 1) with checksum; runs name a version or take the current one."""
    agents = [{"key": "a", "is_default": True, "allow_respond": True, "equipped_tools": ["echo"]}]
    async with Client(platform.gateway.url) as client:
        made = [
            await client.networks.publish({"name": "grows", "agents": agents, "max_steps": steps})
            for steps in (5, 6, 5)
        ]
        assert [one.version for one in made] == [1, 2, 3]
        assert made[0].digest == made[2].digest != made[1].digest, "the checksum is of the content alone"
        assert made[0].digest.startswith("sha256:")
        runs = [await client.run("grows", "hello", timeout=60, **named) for named in ({}, {"version": 2})]
        assert [(run.version, run.max_steps) for run in runs] == [(3, 5), (2, 6)]
        again = await client.networks.show("grows", version=2)
        assert (again.digest, again.version) == (made[1].digest, 2), "what was published stays as it was"
        with pytest.raises(NotFoundError, match="version_not_found"):
            await client.run("grows", "hello", version=4)


async def test_networks_are_published_checked_and_read(platform: Platform, peers: Peers, tmp_path: Path) -> None:
    async with Client(platform.gateway.url) as client:
        file = tmp_path / "n.yaml"
        file.write_text("name: filed\nagents:\n  - {key: a, is_default: true, allow_respond: true}\n")
        assert (await client.networks.validate(file)).name == "filed"
        first = await client.networks.publish(file)
        assert (first.version, (await client.networks.publish(file)).unchanged) == (1, True)
        assert "filed" in {one.name for one in (await client.networks.list()).networks}
        assert (await client.networks.show("filed")).digest == first.digest
        with pytest.raises(RefusedError, match=r"default_agent_missing|network_invalid"):
            await client.networks.publish({"name": "broken", "agents": [{"key": "a"}]})
        assert (await client.gates.list()) == ()
        assert (await client.runs(limit=1, status=None)).runs


async def test_what_is_not_asked_over_nats_says_so(platform: Platform) -> None:
    async with Client(platform.nats_url) as client:
        with pytest.raises(RefusedError, match="over HTTP only") as refused:
            await client.networks.list()
        assert "Client('http://127.0.0.1:8787')" in refused.value.remedy


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "nats://127.0.0.1:1"])
async def test_a_server_that_is_not_there_is_reported_at_once(server: str) -> None:
    async with Client(server) as client, asyncio.timeout(20):
        for attempt in (client.get(uuid.uuid4()), client.submit("solo", "hello")):
            with pytest.raises(UnavailableError) as caught:
                await attempt
            assert caught.value.code == "server_unreachable"
            (line,) = str(caught.value).splitlines()
            assert line.startswith(f"server_unreachable: {server}")
            assert line.endswith(caught.value.remedy)
            assert "towpath up" in line


async def test_a_nats_client_comes_back_with_the_broker(nats_server: Nats) -> None:
    async def answer(message: Msg) -> None:
        headers = {rpc.PROBLEM_HEADER: "run_not_found"}
        await message._client.publish(
            message.reply, problem("run_not_found", "none here").model_dump_json().encode(), headers=headers
        )

    async with connected(nats_server.url()) as nc, Client(nats_server.url()) as client:
        await nc.subscribe("task.get.anonymous", cb=answer)
        await all_sent(nc)
        for _ in range(2):
            with pytest.raises(NotFoundError):
                await client.get(uuid.uuid4())
            assert nats_server.process is not None
            nats_server.process.kill()
            nats_server.process.wait()
            await asyncio.sleep(1)
            await nats_server.start()
        with pytest.raises(NotFoundError):
            await client.get(uuid.uuid4())


async def test_a_stream_that_is_cut_is_taken_up_without_loss_or_repeat(platform: Platform, peers: Peers) -> None:
    peers.answer_tools = False
    port = urlsplit(platform.gateway.url).port or 0
    async with tcp_proxy(port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as client:
        accepted = await client.submit("solo", "hello")
        seen: list[int] = []

        async def follow() -> None:
            async for entry in client.events(accepted.run_id):
                seen.append(entry.seq)  # noqa: PERF401 - seen is watched while the stream goes on

        following = asyncio.create_task(follow())

        def asked() -> dict[Any, Any]:  # of this run: an earlier test may have left one, and calls come again
            return {one.execution_id: one for one in peers.requests if one.run_id == accepted.run_id}

        for step in (1, 2):
            await peers.until(lambda step=step: len(asked()) == step and len(seen) >= 3)
            proxy.open = False
            proxy.cut()
            await peers.finish(list(asked().values())[-1])
            await asyncio.sleep(0.3)
            proxy.open = True
        await asyncio.wait_for(following, 60)
        view = await client.get(accepted.run_id)
        assert (view.status, seen) == ("completed", list(range(1, view.seq + 1)))
        assert proxy.connections >= 3


async def test_events_are_read_by_page_where_streams_do_not_get_through(platform: Platform, peers: Peers) -> None:
    async with Client(platform.gateway.url) as real:
        done = await real.run("solo", "hello", timeout=60)
        page = await real.request("GET", f"/v1/runs/{done.run_id}/events", query={"limit": 100})

    def answer(asked: Asked) -> bytes:
        after = int(asked.path.partition("after=")[2].partition("&")[0] or 0)
        entries = [entry for entry in page["entries"] if entry["seq"] > after][:2]
        return response(200, json.dumps({**page, "entries": entries}).encode(), content_type="application/json")

    async with web(answer) as site, Client(site.url(host="127.0.0.1").rstrip("/")) as client:
        seen = [entry.seq async for entry in client.events(done.run_id)]
        assert seen == list(range(1, done.seq + 1))


async def test_the_key_comes_from_the_argument_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(lambda _: response(401, b"{}")) as site:
        monkeypatch.setenv("TOWPATH_SERVER", site.url(host="127.0.0.1"))
        monkeypatch.setenv("TOWPATH_API_KEY", "from-environment")
        for given, sent in ((None, "Bearer from-environment"), ("given", "Bearer given")):
            async with Client(api_key=given) as client:
                with pytest.raises(Exception, match="401"):
                    await client.get(uuid.uuid4())
            assert site.asked[-1].headers["authorization"] == sent
