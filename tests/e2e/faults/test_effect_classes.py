"""Every effect class keeps its guarantee, wherever its worker dies.

One worker per class and place, each killed there while it has one call. What must hold is in one table.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from tests.support.places import TESTS
from tests.support.platform.broker_queues import queued_messages
from tests.support.platform.marked_runs import ask
from tests.support.tas.tas_caller import query

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.chaos.outside import ToolEffectRecord, read_marks
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = TESTS / "support" / "worker" / "case_tools.py"
PLACES = ("verified", "claim_answered", "before_tool", "inside", "after_tool", "outcome_kept", "confirmed")
BEFORE = frozenset({"verified", "claim_answered", "before_tool"})
"""Places where the tool has not begun."""

EXPECTED: dict[str, tuple[str, int | None]] = {
    **{f"pure.{place}": ("succeeded", 1 if place in BEFORE else 2) for place in PLACES if place != "claim_answered"},
    **{f"idempotent.{place}": ("succeeded", 1 if place in BEFORE | {"confirmed"} else 2) for place in PLACES},
    **{f"reconcilable.{place}": ("succeeded", 1) for place in PLACES},
    **{f"irreversible.{place}": ("unknown", 0 if place in BEFORE else 1) for place in PLACES},
    "irreversible.verified": ("succeeded", 1),  # it was not claimed yet, so no worker can have begun
    "irreversible.confirmed": ("succeeded", 1),
    "pure.confirmed": ("succeeded", None),  # its delivery comes again: the ledger is not asked before a pure call
}
"""The status in the ledger and how often it happened outside, by case; None where both once and twice are right."""

WORDS = {
    "happened": "irreversible.inside",
    "did_not_happen": "irreversible.before_tool",
    "retry": "irreversible.after_tool",
}


@pytest.fixture(scope="module")
def place() -> Any:
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text("kind: Policy\nrules:\n  - {name: cases, tool: 'case.*', effect: allow}\n")
        for case in EXPECTED:
            (folder / "crash" / case).mkdir(parents=True)
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(place: Path) -> AsyncIterator[Platform]:
    workers = [
        WorkerLaunch(
            modules=(str(TOOLS),),
            environment={
                "TOWPATH_TEST_CASE": case,
                "TOWPATH_TEST_EFFECTS": str(place / "effects.txt"),
                "TOWPATH_CRASH_POINTS": str(place / "crash" / case),
            },
        )
        for case in EXPECTED
    ]
    policy = {"tas": {"TOWPATH_POLICY_FILE": str(place / "policy.yaml")}}
    running = Platform(place / "d", role_environment=policy, workers=workers, durable=False, starts="fork")
    async with running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(platform: Platform) -> AsyncIterator[Client]:
    connection = await nats.connect(platform.nats_url)
    yield connection
    await connection.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(platform: Platform, client: Client, place: Path) -> dict[str, str]:
    """A run per case, after its worker was killed and everything that can end by itself has ended."""
    await publish(platform)
    for case in EXPECTED:
        kind = case.partition(".")[2]
        if kind != "inside":
            arm(place / "crash" / case, f"worker.{kind}")
    started = await asyncio.gather(*(submit(client, case) for case in EXPECTED))
    found = dict(zip(EXPECTED, started, strict=True))
    await asyncio.gather(*(settled(client, run_id) for run_id in found.values()))
    await queue_empty(platform)
    return found


def arm(folder: Path, name: str) -> None:
    (folder / f".{name}").touch()
    (folder / f".{name}").rename(folder / name)


async def publish(platform: Platform) -> None:
    agent = {"key": "a", "is_default": True, "allow_respond": True, "prompt_template": "Act."}
    agent["equipped_tools"] = [f"case.{case}" for case in EXPECTED]
    spec = {"name": "cases", "agents": [agent], "max_steps": 5, "timeout_ms": 600_000}
    gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    body = PublishNetwork(project="default", actor="test", spec=spec).model_dump_json().encode()
    try:
        reply = await gateway.request(rpc.PUBLISH_NETWORK.subject, body, timeout=60)
        assert not (reply.headers and rpc.PROBLEM_HEADER in reply.headers), reply.data
    finally:
        await gateway.close()


async def submit(client: Client, case: str) -> str:
    details = {"tool_name": f"case.{case}", "tool_params": {"n": 7}}
    script = [
        {"action": "USE_TOOL", "action_reasoning": "act", "action_details": details},
        {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}},
    ]
    task = {"network": "cases", "user_message": case, "script": script, "idempotency_key": case}
    return str((await ask(client, "task.submit", task))["run_id"])


async def settled(client: Client, run_id: str, *, gate: bool = True) -> str:
    """Wait until a run has ended, or waits for a person where *gate* allows it."""
    async with asyncio.timeout(120):
        while True:
            status = str((await ask(client, "task.get.anonymous", {"run_id": run_id}))["status"])
            if status not in {"queued", "running"} and (gate or status != "waiting"):
                return status
            await asyncio.sleep(0.2)


async def queue_empty(platform: Platform) -> None:
    """Wait until no delivery is left that could still run something."""
    async with asyncio.timeout(120):
        while True:
            if not (await queued_messages(platform))["TOOLEXEC"]:
                return
            await asyncio.sleep(0.2)


async def ledger(platform: Platform) -> dict[str, dict[str, Any]]:
    rows = await query(platform.dsn(), "SELECT tool, status, execution_id::text, attempt FROM tas.tool_call")
    return {row["tool"].removeprefix("case."): dict(row) for row in rows}


def marks(place: Path, case: str) -> list[ToolEffectRecord]:
    return [mark for mark in read_marks(place / "effects.txt") if mark.tool == case]


async def gate_of(platform: Platform, run_id: str) -> dict[str, Any]:
    (row,) = await query(platform.dsn(), "SELECT * FROM runs.gate WHERE run_id = $1 AND status = 'pending'", run_id)
    return {**row, "detail": json.loads(row["detail"])}


async def test_a_killed_worker_breaks_no_guarantee_of_an_effect_class(
    platform: Platform, client: Client, place: Path, runs: dict[str, str]
) -> None:
    rows = await ledger(platform)
    wrong = []
    for case, (status, times) in EXPECTED.items():
        left = marks(place, case)
        ids = {mark.execution_id for mark in left}
        if rows[case]["status"] != status or (times is not None and len(left) != times) or len(ids) > 1:
            wrong.append(
                f"{case}: {rows[case]['status']} with {len(left)} marks of {len(ids)} ids, not {status}, {times}"
            )
        if ids and ids != {rows[case]["execution_id"]}:
            wrong.append(f"{case}: it ran under another id")
        expected = "waiting" if status == "unknown" else "completed"
        if (found := await settled(client, runs[case])) != expected:
            wrong.append(f"{case}: the run is {found}")
    assert wrong == []
    hits = list((place / "crash").rglob("worker.*"))
    assert hits == [], "every crash point was hit"


async def test_the_probe_is_what_ended_a_call_that_had_happened(platform: Platform, runs: dict[str, str]) -> None:
    rows = await query(
        platform.dsn(), "SELECT run_id::text, event FROM runs.run_event WHERE type = 'tool_call_finished'"
    )
    events = {row["run_id"]: json.loads(row["event"]) for row in rows}
    for place in PLACES:
        event = events[runs[f"reconcilable.{place}"]]
        looked_up = place in {"inside", "after_tool", "outcome_kept"}
        probed = {"verified": "", "confirmed": ""}.get(place, "happened" if looked_up else "did_not_happen")
        assert (event["probe"], "found" in event["result"]) == (probed, looked_up), place


async def test_a_gate_shows_what_is_known_and_the_verdict_settles_the_call(
    platform: Platform, client: Client, place: Path, runs: dict[str, str]
) -> None:
    gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    for verdict, case in WORDS.items():
        gate = await gate_of(platform, runs[case])
        detail = gate["detail"]
        assert (detail["tool"], detail["args"], detail["starts"]) == (f"case.{case}", {"n": 7}, 1)
        assert detail["worker"].startswith("worker") and detail["claimed_at"] < detail["lease_until"]
        assert "lease" in detail["why"] and "may still act" in detail["retry_warning"]
        said = {
            "project": "default",
            "gate_id": str(gate["gate_id"]),
            "verdict": verdict,
            "actor": "ann",
            "roles": ["operator"],
            "reason": "looked",
        }
        await ask(gateway, rpc.RESOLVE_GATE.subject, said)
        assert await settled(client, runs[case], gate=False) == "completed"
        (closed,) = await query(platform.dsn(), "SELECT * FROM runs.gate WHERE gate_id = $1", gate["gate_id"])
        assert (closed["verdict"], closed["closed_by"]) == (verdict, "ann")
    await gateway.close()
    rows = await ledger(platform)
    ends = {
        verdict: (rows[case]["status"], rows[case]["attempt"], len(marks(place, case)))
        for verdict, case in WORDS.items()
    }
    assert ends == {"happened": ("succeeded", 1, 1), "did_not_happen": ("failed", 1, 0), "retry": ("succeeded", 2, 2)}
    audited = await query(
        platform.dsn(), "SELECT tool, phase, verdict FROM tas.audit_entry WHERE actor = 'ann' ORDER BY entry_id"
    )
    assert [row["tool"] for row in audited] == [f"case.{case}" for case in WORDS.values()]
