"""Rows C10 and B6 on the running platform: agents in user code decide; their hooks break nothing."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import nats
import pytest
import pytest_asyncio
from tests.support.places import EXAMPLES, TESTS
from tests.support.waiting import all_sent, eventually
from tests.support.worker.sample_agents import BROKEN, PLACE, SECRET

from towpath.cli import main
from towpath_contracts import subjects
from towpath_contracts.facts import DecisionMadeFact
from towpath_contracts.ids import request_id
from towpath_contracts.streams import agent_consumer
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import AgentLaunch, WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = EXAMPLES / "base_agent"
SAMPLES = TESTS / "support" / "worker" / "sample_agents.py"
FINAL = {"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"}
HIDDEN = "correct-horse-battery"
ACK_WAIT_S = 2.0
"""Instead of 20: so long the broker gives a process that sends nothing."""

NETWORK = """\
kind: Network
name: samples
model: agent:sampler
max_steps: 6
agents:
  - {key: sampler, is_default: true, allow_respond: true, equipped_tools: [sample.look, plan_setup]}
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with temporary_folder() as folder:
        shutil.copytree(EXAMPLE, folder / "lock")
        (folder / "lock" / "samples.yaml").write_text(NETWORK)
        rules = (folder / "lock" / "policy.yaml").read_text()
        (folder / "policy.yaml").write_text(
            rules + "\n  - {name: look, tool: sample.look, effect: allow, max_cost_per_run_usd: 5}\n"
        )
        (folder / "prices.yaml").write_text('"agent:sampler": {input_usd: 100000, output_usd: 0}\n')
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(place: Path) -> AsyncIterator[Platform]:
    environment = {PLACE: str(place), SECRET: HIDDEN}
    workers = [
        WorkerLaunch(modules=(str(place / "lock" / "tools.py"), str(SAMPLES)), environment=environment),
        AgentLaunch(target=f"{place / 'lock' / 'keeper.py'}:LockKeeper"),
        AgentLaunch(target=f"{SAMPLES}:Sampler", name="sampler", count=2, environment=environment),
    ]
    policy = {
        "tas": {"TOWPATH_POLICY_FILE": str(place / "policy.yaml")},
        "orchestrator": {"TOWPATH_MODEL_PRICES_FILE": str(place / "prices.yaml")},
    }
    async with Platform(place / "d", role_environment=policy, workers=workers, durable=False, starts="fork") as running:
        notices: list[str] = []
        await NetworkFolderPublisher(place / "lock", running.client_url, notices.append).publish_changed()
        assert len([one for one in notices if one.endswith("version 1")]) == 2, notices
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(platform: Platform) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=platform.client_url, verify=False, timeout=60) as connected:
        yield connected


async def submit(client: httpx2.AsyncClient, network: str, message: str, **more: Any) -> str:
    answer = await client.post("/v1/runs", json={"network": network, "user_message": message, **more})
    assert answer.is_success, answer.text
    return str(answer.json()["run_id"])


async def run_of(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    return dict((await client.get(f"/v1/runs/{run_id}")).json())


async def reached(client: httpx2.AsyncClient, run_id: str, statuses: set[str]) -> dict[str, Any]:
    async with asyncio.timeout(90):
        while True:
            found = await run_of(client, run_id)
            if found["status"] in statuses:
                return found
            await asyncio.sleep(0.05)


async def events(client: httpx2.AsyncClient, run_id: str, kind: str) -> list[dict[str, Any]]:
    headers = {"Accept": "application/json"}
    page = (await client.get(f"/v1/runs/{run_id}/events", params={"limit": 500}, headers=headers)).json()
    return [one["event"] for one in page["entries"] if one["event"]["type"] == kind]


def recorded_hooks(place: Path, role: str, run_id: str = "") -> list[dict[str, Any]]:
    path = place / f"{role}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if not run_id or line["run_id"] == run_id]


async def test_c10_an_agent_in_user_code_decides_and_the_platform_acts(client: httpx2.AsyncClient) -> None:
    """C10: `BaseAgent` in the SDK: its `plan` is called by the platform's loop, `execute_tool` is the platform's."""
    run_id = await submit(client, "lock", "Ida")
    run = await reached(client, run_id, FINAL)
    assert (run["status"], run["final"]) == ("completed", {"message": "The gate is open for Ida."})
    made = await events(client, run_id, "decision_received")
    assert [(one["model"], one["decision"]["action"]) for one in made] == [
        ("agent:lock_keeper", "USE_TOOL"),
        ("agent:lock_keeper", "USE_TOOL"),
        ("agent:lock_keeper", "RESPOND"),
    ]
    entries = (await client.get("/v1/audit", params={"run_id": run_id})).json()["entries"]
    decided = [(one["tool"], one["verdict"]) for one in entries if one["phase"] == "decision"]
    assert sorted(decided) == [("lock.levels", "allow"), ("lock.open", "allow")], "it can't go round the matrix"


async def test_a_killed_agent_loses_no_decision_and_no_stranger_makes_one(
    client: httpx2.AsyncClient, platform: Platform, place: Path
) -> None:
    await shorten_ack_wait(platform)
    run_id = await submit(client, "samples", "slow")
    marker = place / f"slow-{run_id}"
    await eventually(lambda: marker.exists() and marker.read_text() != "")
    await forge(platform, run_id)
    (killed,) = [name for name, one in platform.processes.items() if one.pid == int(marker.read_text())]
    await platform.hold(killed)  # by SIGKILL, and it stays down: started anew it would set the ack wait back
    run = await reached(client, run_id, FINAL)
    assert run["status"] == "completed", run
    assert run["final"]["pid"] not in (int(marker.read_text()), "stranger")
    assert len(await events(client, run_id, "decision_received")) == 1
    platform.release(killed)
    await platform.wait_ready()


async def shorten_ack_wait(platform: Platform) -> None:
    deploy = await nats.connect(platform.nats_url_of("deploy"), inbox_prefix=b"_INBOX_deploy")
    try:
        js = deploy.jetstream()
        durable = agent_consumer("default", "sampler").durable
        config = (await js.consumer_info("DECIDE", durable)).config
        config.ack_wait = ACK_WAIT_S
        await js.add_consumer("DECIDE", config=config)
    finally:
        await deploy.close()


async def forge(platform: Platform, run_id: str) -> None:
    """Answer a request of the sampler with the credential of the lock keeper, in its own name and in the other's."""
    said = DecisionMadeFact.model_validate(
        {
            "run_id": run_id,
            "request_id": request_id(UUID(run_id), 1, "decide", 0),
            "attempt": 1,
            "model": "agent:sampler",
            "pool": subjects.agent_pool("default", "sampler"),
            "decision": {"action": "RESPOND", "action_details": {"payload": {"pid": "stranger"}}},
        }
    )
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error))

    keeper = await nats.connect(platform.nats_url_of("agents_2"), inbox_prefix=b"_INBOX_agent", error_cb=note)
    try:
        for name in ("lock_keeper", "sampler"):
            place = subjects.agent_inbox(subjects.agent_pool("default", name), UUID(run_id))
            await keeper.publish(place, said.model_dump_json().encode())
        await all_sent(keeper)
        await eventually(lambda: len(refused) == 1)
        assert "sampler" in refused[0]
    finally:
        await keeper.close()


async def test_b6_hooks_of_workers_and_agents_get_every_event_and_break_nothing(
    client: httpx2.AsyncClient, platform: Platform, place: Path
) -> None:
    """B6: start, finished, error, pre/post model call, pre/post tool call; a failing hook is contained and reported."""
    run_id = await submit(client, "samples", "look")
    run = await reached(client, run_id, FINAL)
    assert (run["status"], run["final"]) == ("completed", {"seen": ["here: 21 locks opened"]})
    assert (run["usage"]["model_calls"], run["cost"]["usd"]) == (2, 0.5)
    agent = [(one["name"], one["tool"] or one["model"]) for one in recorded_hooks(place, "agent", run_id)]
    calls = [("pre_model_call", "local:tiny"), ("post_model_call", "local:tiny")]
    assert agent == [
        ("pre_model_call", "agent:sampler"),
        *calls,
        ("pre_tool_call", "sample.look"),
        ("post_model_call", "agent:sampler"),
        ("pre_model_call", "agent:sampler"),
        ("post_tool_call", "sample.look"),
        *calls,
        ("post_model_call", "agent:sampler"),
    ]
    worker = [
        (one["name"], one["tool"], one["status"])
        for one in recorded_hooks(place, "worker")
        if "lock" not in one["tool"] and one["name"] != "run_finished"  # it comes when it comes, of runs before too
    ]
    around = [("pre_tool_call", "sample.look", ""), ("post_tool_call", "sample.look", "succeeded")]
    assert worker == [("start", "", ""), *around]
    failed = await reached(client, await submit(client, "samples", "fail"), FINAL)
    assert (failed["status"], failed["reason"]) == ("failed", "agent_failed")
    assert [one["status"] for one in recorded_hooks(place, "agent") if one["name"] == "error"] == ["agent_failed"]
    assert {one["name"] for one in recorded_hooks(place, "broken")} == set(BROKEN), "they failed, and the runs went on"
    await platform.hold("agent-2", gracefully=True)
    await eventually(lambda: any(one["name"] == "finished" for one in recorded_hooks(place, "agent")))
    platform.release("agent-2")
    await counted(platform, "worker", "towpath_worker_hook_failures_total", "pre_tool_call")
    await counted(platform, "agent-3", "towpath_agent_hook_failures_total", "pre_model_call")
    assert not hidden_in(place), "no hook and no log gets a secret"
    assert HIDDEN not in json.dumps(failed)


def hidden_in(place: Path) -> list[Path]:
    files = (*place.glob("*.jsonl"), *(place / "d" / "logs").glob("*.log"))
    return [path for path in files if HIDDEN in path.read_text()]


async def counted(platform: Platform, name: str, metric: str, event: str) -> None:
    async with httpx2.AsyncClient(verify=False, timeout=60) as client:
        shown = (await client.get(f"{platform.health_url(name)}/metrics")).text
    assert f'{metric}{{event="{event}"}}' in shown


async def test_c10_an_agents_fault_is_reported_to_it_or_ends_its_run(client: httpx2.AsyncClient) -> None:
    """C10: an answer that is none is fed back; a failure has a stable code."""
    run = await reached(client, await submit(client, "samples", "nonsense"), FINAL)
    assert run["final"] == {"message": "nonsense: 1 refused"}
    run = await reached(client, await submit(client, "samples", "busy"), FINAL)
    assert (run["status"], run["reason"]) == ("failed", "too_busy")


async def test_c10_the_loop_calls_every_method_and_opens_the_gate_that_an_agent_asks_for(
    client: httpx2.AsyncClient,
) -> None:
    """C10: plan, validate, evaluate progress and confidence are called by the loop; create_gate opens a gate."""
    goal = {"goal": "careful", "acceptance_criteria": [{"text": "somebody looked twice"}]}
    run_id = await submit(client, "samples", "", goal=goal)
    await reached(client, run_id, {"waiting", *FINAL})
    (gate,) = (await client.get("/v1/gates", params={"run_id": run_id})).json()["gates"]
    assert (gate["gate_type"], gate["reason"]) == ("manual", "May I say so?")
    assert gate["detail"]["asked"] == {"seen": 1}
    answer = await client.post(f"/v1/gates/{gate['gate_id']}/approve", json={"reason": "go on"})
    assert answer.is_success, answer.text
    run = await reached(client, run_id, FINAL)
    assert (run["status"], run["reason"]) == ("completed", "criteria_met")
    assert run["final"]["progress"] == 0.5, "returned by a plain method"
    asked = [one["kind"] for one in await events(client, run_id, "decision_requested") if one["step"] == 1]
    assert asked == ["decide", "validate", "progress", "confidence"]
    (measured,) = await events(client, run_id, "confidence_measured")
    assert (measured["trigger"], measured["score"]) == ("requested", 0.9)


@pytest.mark.prints("runs confidence")
async def test_c10_a_person_asks_for_confidence_while_a_run_goes_on(client: httpx2.AsyncClient) -> None:
    """C10 and C8: checked on request, from outside too; below 0.5 a person decides."""
    look = {"action": "USE_TOOL", "action_details": {"tool_name": "sample.look", "tool_params": {"where": "here"}}}
    script = [{**look, "delay_ms": 700}, {"kind": "confidence", "confidence": 0.49}]
    never = {"goal": "look", "acceptance_criteria": [{"when": "results.exists(r, r.status == 'never')"}]}
    run_id = await submit(client, "samples", "", goal=never, model="scripted:task", script=script)
    words = ["runs", "confidence", run_id, "--reason", "is it sure?", "--server", str(client.base_url)]
    assert await asyncio.to_thread(main, words) == 0
    await reached(client, run_id, {"waiting", *FINAL})
    (gate,) = (await client.get("/v1/gates", params={"run_id": run_id})).json()["gates"]
    assert (gate["gate_type"], gate["reason"]) == ("low_confidence", "Low confidence: 0.49")
    stopped = await client.post(f"/v1/gates/{gate['gate_id']}/resolve", json={"verdict": "stop"})
    assert stopped.is_success, stopped.text


async def test_budget_what_an_agent_can_not_price_costs_what_the_operator_says(client: httpx2.AsyncClient) -> None:
    """A rule that lets a run go on only while it costs less than an amount needs a known cost."""
    run = await reached(client, await submit(client, "samples", "look unpriced"), FINAL)
    assert (run["status"], run["calls"]["allowed"]) == ("completed", 1), run
    assert run["cost"] == {"usd": 2.0, "price_known": True, "price_source": "price file"}


async def test_c1_a_judge_of_its_own_is_believed_by_what_it_names_in_the_record(client: httpx2.AsyncClient) -> None:
    """Row C1: never single-shot, and judged by another model than the one that acts."""
    look = {"action": "USE_TOOL", "action_details": {"tool_name": "sample.look", "tool_params": {"where": "here"}}}
    again = {**look, "action_details": {"tool_name": "sample.look", "tool_params": {"where": "there"}}}
    goal = {
        "goal": "look twice",
        "acceptance_criteria": [{"text": "somebody looked twice"}],
        "settings": {"judge_model": "agent:sampler"},
    }
    run_id = await submit(client, "samples", "", goal=goal, model="scripted:task", script=[look, again])
    run = await reached(client, run_id, FINAL)
    assert (run["status"], run["reason"], run["step"]) == ("completed", "criteria_met", 2), run
    asked = [(one["kind"], one["model"]) for one in await events(client, run_id, "decision_requested")]
    assert [one for one in asked if one[0] in {"decide", "validate"}] == [
        ("decide", "scripted:task"),
        ("validate", "agent:sampler"),
    ] * 2
    calls = [one["execution_id"] for one in await events(client, run_id, "tool_call_finished")]
    judged = [
        one["decision"] for one in await events(client, run_id, "decision_received") if one.get("kind") == "validate"
    ]
    assert calls[-1] in judged[-1]["criteria"][0]["evidence"], "the log says which call it named"


async def test_d2_an_agent_makes_the_deliverable_of_a_run_that_others_decide(client: httpx2.AsyncClient) -> None:
    """D2: deliverable factory (in the SDK, run once; failure = failed run)."""
    done = {"action": "RESPOND", "action_details": {"payload": {"report": "fine"}}}
    settings = {"summarize_model": "agent:sampler"}
    schema = {"type": "object", "required": ["objective"]}
    ends = {}
    for objective in ("look", "break"):
        background = {"objective": objective, "deliverable_schema": schema, "settings": settings}
        more = {"background": background, "model": "scripted:task", "script": [done]}
        run_id = await submit(client, "samples", "", **more)
        run = await reached(client, run_id, FINAL)
        asked = [one["model"] for one in await events(client, run_id, "decision_requested")]
        assert asked == ["scripted:task", "agent:sampler"], "once"
        ends[objective] = (run["status"], run["reason"], run["final"])
    assert ends["look"][0] == "completed" and ends["look"][2]["deliverable"] == {"objective": "look"}
    assert ends["break"][:2] == ("failed", "deliverable_failed")
    assert HIDDEN not in json.dumps(ends)
