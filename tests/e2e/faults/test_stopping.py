"""Cancelled runs prove that nothing of them goes on; slow, stuck and large calls disturb no other run."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from tests.support.places import TESTS
from tests.support.platform.marked_runs import ask
from tests.support.tas.tas_caller import query
from tests.support.waiting import eventually

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.tools.previews import PREVIEW_BYTES
from towpath_embedded.chaos.outside import ToolEffectRecord, read_marks
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = TESTS / "support" / "worker" / "stop_tools.py"
STORM = ("stop.pure", "stop.idempotent", "stop.reconcilable", "stop.irreversible", "stop.thread")
OTHERS = ("stop.wait", "stop.program", "stop.stuck", "stop.large")
RUNS = 40
STEPS = 18
"""Of 0.3 s at least: where cancels come late, as on a busy machine, most runs are still at work."""
FINAL = frozenset({"completed", "cancelled", "failed", "timed_out"})


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text("kind: Policy\nrules:\n  - {name: stops, tool: 'stop.*', effect: allow}\n")
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(place: Path) -> AsyncIterator[Platform]:
    worker = WorkerLaunch(
        modules=(str(TOOLS),), count=2, concurrency=12, environment={"TOWPATH_TEST_EFFECTS": str(place / "effects.txt")}
    )
    policy = {"tas": {"TOWPATH_POLICY_FILE": str(place / "policy.yaml")}}
    async with Platform(
        place / "d", role_environment=policy, workers=[worker], durable=False, starts="fork"
    ) as running:
        await publish(running)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(platform: Platform) -> AsyncIterator[Client]:
    connection = await nats.connect(platform.nats_url, max_reconnect_attempts=-1, reconnect_time_wait=0.2)
    yield connection
    await connection.close()


async def publish(platform: Platform) -> None:
    agent = {"key": "a", "is_default": True, "allow_respond": True, "prompt_template": "Act."}
    agent["equipped_tools"] = [*STORM, *OTHERS]
    spec = {"name": "stops", "agents": [agent], "max_steps": 20, "timeout_ms": 600_000}
    gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    try:
        body = PublishNetwork(project="default", actor="test", spec=spec).model_dump_json().encode()
        reply = await gateway.request(rpc.PUBLISH_NETWORK.subject, body, timeout=60)
        assert not (reply.headers and rpc.PROBLEM_HEADER in reply.headers), reply.data
    finally:
        await gateway.close()


async def submit(client: Client, key: str, steps: list[tuple[str, ...]]) -> str:
    """Submit a run that calls the tools of each step together, then answers."""
    script = [
        {
            "action": "USE_TOOL",
            "action_reasoning": "act",
            "action_details": {
                "calls": [{"tool_name": name, "tool_params": {"n": 10 * step + n}} for n, name in enumerate(names)]
            },
        }
        for step, names in enumerate(steps)
    ]
    script.append({"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}})
    task = {"network": "stops", "user_message": key, "script": script, "idempotency_key": key}
    return str((await ask(client, "task.submit", task))["run_id"])


async def view(client: Client, run_id: str) -> dict[str, Any]:
    return await ask(client, "task.get.anonymous", {"run_id": run_id})


async def ended(client: Client, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(90):
        while True:
            found = await view(client, run_id)
            if found["status"] in FINAL:
                return found
            await asyncio.sleep(0.1)


async def cancel(client: Client, run_id: str) -> None:
    try:
        await ask(client, "task.cancel.anonymous", {"run_id": run_id, "reason": "enough"})
    except AssertionError as error:
        assert "run_finished" in str(error), error


async def storm(client: Client, number: int) -> dict[str, Any]:
    """Run random calls, for three times as long as anybody waits, and cancel at a random moment."""
    chance = random.Random(number)
    steps = [tuple(chance.choice(STORM) for _ in range(3)) for _ in range(STEPS)]
    run_id = await submit(client, f"storm-{number}", steps)
    await asyncio.sleep(chance.uniform(0, 1.8))
    await cancel(client, run_id)
    return await ended(client, run_id)


def judge(run: dict[str, Any], marks: dict[str, list[ToolEffectRecord]], at: float) -> list[str]:
    """Describe what the list of effects of a cancelled run claims wrongly, and what happened after its answer."""
    wrong = []
    for effect in run["effects"]:
        left = [mark for mark in marks.pop(effect["execution_id"], []) if mark.effect_class != "pure"]
        if effect["tool"] == "stop.pure":
            continue
        if any(mark.at > at for mark in left):
            wrong.append(f"{effect} happened after the answer")
        if len(left) > 1 or (effect["outcome"] == "did_not_happen" and left):
            wrong.append(f"{effect} happened {len(left)} times")
        if effect["outcome"] == "happened" and not left and effect["tool"] != "stop.thread":
            wrong.append(f"{effect} left no mark")
        if effect["outcome"] in {"open", "failed"}:
            wrong.append(f"{effect} is not settled")
    return wrong


async def test_nothing_starts_after_a_run_says_that_it_is_cancelled(
    platform: Platform, client: Client, place: Path
) -> None:
    runs = await asyncio.gather(*(storm(client, number) for number in range(RUNS)))
    cancelled = [run for run in runs if run["status"] == "cancelled"]
    assert len(cancelled) >= RUNS // 2, [run["status"] for run in runs]
    times = await query(platform.dsn(), "SELECT run_id::text, extract(epoch FROM ended_at) AS at FROM runs.run")
    ended_at = {row["run_id"]: float(row["at"]) for row in times}
    marks: dict[str, list[ToolEffectRecord]] = {}
    for mark in read_marks(place / "effects.txt"):
        marks.setdefault(mark.execution_id, []).append(mark)
    wrong = [fault for run in cancelled for fault in judge(run, marks, ended_at[run["run_id"]])]
    assert wrong == []
    outcomes = {effect["outcome"] for run in cancelled for effect in run["effects"]}
    assert {"happened", "did_not_happen"} <= outcomes, outcomes
    rows = await query(
        platform.dsn(),
        "SELECT execution_id::text FROM tas.tool_call WHERE status IN ('requested', 'permitted', 'started')",
    )
    assert rows == [], "no call is left in the air"


async def test_a_cancel_ends_the_program_that_a_tool_runs(platform: Platform, client: Client, place: Path) -> None:
    run_id = await submit(client, "program", [("stop.program",)])
    await eventually((place / "pids").exists, within_s=60)
    pids = [int(pid) for pid in (place / "pids").read_text().split()]
    await cancel(client, run_id)
    run = await ended(client, run_id)
    assert (run["status"], [effect["outcome"] for effect in run["effects"]]) == ("cancelled", ["unknown"])
    await eventually(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids), within_s=60)


async def test_an_outcome_outlives_a_tas_that_is_down_and_a_broker_that_lost_everything(
    platform: Platform, client: Client, place: Path
) -> None:
    before = len(read_marks(place / "effects.txt"))
    run_id = await submit(client, "outlives", [("stop.wait",)])
    await eventually(lambda: len(read_marks(place / "effects.txt")) > before, within_s=60)
    await platform.hold("tas")
    await asyncio.sleep(2)  # the tool ends, and its result is not taken
    await platform.hold("nats")
    shutil.rmtree(platform.nats.store)
    platform.release("nats")
    await asyncio.sleep(1)
    platform.release("tas")
    assert (await ended(client, run_id))["status"] == "completed"
    assert len(read_marks(place / "effects.txt")) == before + 1
    rows = await query(
        platform.dsn(), "SELECT phase, verdict FROM tas.audit_entry WHERE run_id = $1 ORDER BY entry_id", run_id
    )
    outcomes = [row["verdict"] for row in rows if row["phase"] == "outcome"]
    assert outcomes == ["succeeded"], "it is in the ledger once, and was never in doubt"


async def test_a_stuck_tool_blocks_its_own_slot_only(platform: Platform, client: Client, place: Path) -> None:
    """Reliability catalogue, test 14: it ends by its timeout, other toolsets go on, large results go by reference."""
    stuck = [submit(client, f"stuck-{n}", [("stop.stuck",)]) for n in range(4)]
    runs = [await run for run in stuck]
    others = [await submit(client, f"other-{n}", [("stop.pure",), ("stop.large",)]) for n in range(4)]
    assert [(await ended(client, run))["status"] for run in runs + others] == ["completed"] * 8
    calls = await query(
        platform.dsn(), "SELECT status, fact FROM tas.tool_call WHERE tool = 'stop.stuck' AND run_id = ANY ($1)", runs
    )
    assert [row["status"] for row in calls] == ["failed"] * 4 and all("tool_timeout" in row["fact"] for row in calls)
    (place / "release").touch()
    events = await query(
        platform.dsn(),
        "SELECT event->>'blob' AS blob, length(event::text) AS size, event->>'result_digest' AS digest"
        " FROM runs.run_event WHERE type = 'tool_call_finished' AND event->>'tool' = 'stop.large'"
        " AND run_id = ANY ($1)",
        others,
    )
    assert len(events) == 4 and all(row["blob"] == "true" and row["size"] < 2_000 + PREVIEW_BYTES for row in events)
    (stored,) = await query(
        platform.dsn(), "SELECT length(data) AS size FROM runs.blob WHERE digest = $1", events[0]["digest"]
    )
    assert stored["size"] == 10_000_002
