"""A decider that dies or freezes in a model call costs time and money, and never a second decision."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import ConsumerConfig
from tests.support.decider.gemini_server import INPUT_TOKENS, Answer, GeminiServer, gemini, says
from tests.support.platform.marked_runs import ask
from tests.support.tas.tas_caller import query
from tests.support.waiting import eventually

from towpath_contracts import rpc, subjects
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.streams import decide_consumer
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_names import replica_names

ACK_WAIT_S = 3.0
"""Instead of 20: so long the broker gives a decider that sends nothing."""

NEVER_S = 600.0
FIRST, SECOND = replica_names("decider", 2)


def answer(text: str, delay_s: float = 0.0) -> Answer:
    said = says(json.dumps({"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": text}}))
    return Answer(body=said.body, delay_s=delay_s)


@pytest.fixture
def model() -> Iterator[GeminiServer]:
    """The first request is answered late, the second never, all others at once."""
    with gemini(answer("late", 2.0), answer("never", NEVER_S), answer("in time")) as server:
        yield server


async def publish(platform: Platform) -> None:
    agent = {"key": "a", "is_default": True, "allow_respond": True, "prompt_template": "Answer."}
    agent["model"] = "gemini:gemini-2.5-flash"
    spec = {"name": "asks", "agents": [agent], "max_steps": 5, "timeout_ms": 600_000, "step_timeout_ms": 300_000}
    gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    try:
        body = PublishNetwork(project="default", actor="test", spec=spec).model_dump_json().encode()
        reply = await gateway.request(rpc.PUBLISH_NETWORK.subject, body, timeout=60)
        assert not (reply.headers and rpc.PROBLEM_HEADER in reply.headers), reply.data
    finally:
        await gateway.close()


async def shorten_ack_wait(platform: Platform) -> None:
    deploy = await nats.connect(platform.nats_url_of("deploy"), inbox_prefix=b"_INBOX_deploy")
    try:
        js = deploy.jetstream()
        durable = decide_consumer(subjects.DEFAULT_POOL).durable
        config: ConsumerConfig = (await js.consumer_info("DECIDE", durable)).config
        config.ack_wait = ACK_WAIT_S
        await js.add_consumer("DECIDE", config=config)
    finally:
        await deploy.close()


async def submit(client: Client, key: str) -> str:
    task = {"network": "asks", "user_message": key, "idempotency_key": key}
    return str((await ask(client, "task.submit", task))["run_id"])


async def ended(client: Client, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while True:
            run = await ask(client, "task.get.anonymous", {"run_id": run_id, "wait_ms": 2_000})
            if run["status"] not in {"queued", "running", "waiting"}:
                return run


async def calls_of(platform: Platform, run_id: str) -> list[Any]:
    return list(await query(platform.dsn(), "SELECT * FROM history.llm_call WHERE run_id = $1 ORDER BY call", run_id))


async def test_a_lost_model_call_is_made_again_and_its_late_answer_changes_nothing(
    folder: Path, model: GeminiServer
) -> None:
    environment = {"GEMINI_API_KEY": "k", "TOWPATH_GEMINI_BASE_URL": model.url}
    (folder / "prices.yaml").write_text('"gemini:*": {input_usd: 1000, output_usd: 0}\n')
    platform = Platform(
        folder / "d",
        replicas={"decider": 2},
        environment={"TOWPATH_MODEL_PRICES_FILE": str(folder / "prices.yaml")},
        role_environment={"decider": environment},
        workers=(),
        durable=False,
        starts="fork",
    )
    async with platform:
        await publish(platform)
        await shorten_ack_wait(platform)
        client = await nats.connect(platform.nats_url)
        await platform.hold(SECOND)
        frozen = await submit(client, "frozen")
        await eventually(lambda: len(model.seen) == 1, within_s=60)
        platform.signal(FIRST, signal.SIGSTOP)
        platform.release(SECOND)
        killed = await submit(client, "killed")
        await eventually(lambda: len(model.seen) == 2, within_s=60)
        while platform.processes[SECOND].pid is None:  # noqa: ASYNC110 - a level, not an edge
            await asyncio.sleep(0.05)
        platform.kill(SECOND)
        runs = [await ended(client, run_id) for run_id in (frozen, killed)]
        assert [run["status"] for run in runs] == ["completed"] * 2
        assert all("in time" in json.dumps(run["final"]) for run in runs), runs
        platform.signal(FIRST, signal.SIGCONT)
        await eventually_both(platform, frozen)
        rows = await calls_of(platform, frozen)
        assert [row["input_tokens"] for row in rows] == [INPUT_TOKENS] * 2
        price = INPUT_TOKENS / 1_000
        assert [(float(row["cost_usd"]), row["price_source"]) for row in rows] == [(price, "price file")] * 2
        assert runs[0]["cost"] == {"usd": price, "price_known": True, "price_source": "price file"}
        again = await ended(client, frozen)
        assert (again["final"], again["usage"]["model_calls"], again["seq"]) == (runs[0]["final"], 1, runs[0]["seq"])
        statement = "SELECT total_cost_usd FROM history.agent_execution_history WHERE id = $1"
        assert [float(row["total_cost_usd"]) for row in await query(platform.dsn(), statement, frozen)] == [price]
        decided = await query(
            platform.dsn(), "SELECT run_id::text FROM runs.run_event WHERE type = 'decision_received'"
        )
        assert sorted(row["run_id"] for row in decided) == sorted([frozen, killed]), "one decision each"
        assert len(model.seen) >= 4, "both calls were made twice"
        await client.close()


async def eventually_both(platform: Platform, run_id: str) -> None:
    """Wait until the calls of both deciders are in the history."""
    async with asyncio.timeout(90):
        while True:
            if len(await calls_of(platform, run_id)) >= 2:
                return
            await asyncio.sleep(0.2)
