"""Rows E8 to E10 on the running platform: one way to run agents, answers that wait or don't, one trace over all.

Also that a run is one trace over all processes, and a receiver that hangs holds up no run.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import httpx2
import pytest
import pytest_asyncio
import yaml
from tests.support.gateway.sse import frames
from tests.support.places import EXAMPLES
from tests.support.platform.otlp_receiver import Receiver, otlp_receiver
from tests.support.platform.run_traces import CLIENT_SPAN, CLIENT_TRACE, SECRET, check_plan_tree, check_tree, whole
from tests.support.waiting import eventually, until

from towpath import Client, RefusedError, TowpathError, call, plan
from towpath.cli import main
from towpath_contracts.runs.views import GateView
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAMPLE = EXAMPLES / "support"
SERVICES = {f"towpath-{name}" for name in ("gateway", "orchestrator", "decider", "tas", "worker")}
RULES = [
    {"name": "plan", "who": {"network": "planning"}, "tool": "agent_orchestrate", "effect": "allow"},
    {"name": "ask", "who": {"network": "asking"}, "tool": "agent_orchestrate", "effect": "require_approval"},
    {"name": "look-up", "who": {"network": "planning"}, "tool": "orders.find", "effect": "allow"},
]
PLANNING = {
    "name": "planning",
    "agents": [
        {"key": "boss", "is_default": True, "allow_respond": True, "equipped_tools": ["agent_orchestrate"]},
        {"key": "tech", "allow_respond": True, "equipped_tools": ["orders.find"]},
    ],
}

ASKING = {**PLANNING, "name": "asking"}


def use(tool: str, **params: Any) -> dict[str, Any]:
    return {
        "action": "USE_TOOL",
        "action_reasoning": "as planned",
        "action_details": {"tool_name": tool, "tool_params": params},
    }


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": text}, **more}


SCRIPT = [
    use("orders.find", order_id="8812"),
    use("orders.refund", order_id="8812", amount=1, reason="x" * 100 + SECRET),
    use("orders.delete", order_id="8812"),
    says("x" * 120 + SECRET),
]
LOOKS = [{**use("orders.find", order_id="8812"), "agent": "tech"}, says("It is a lamp.", agent="tech")]
LOOK = plan("look").step("tech", "What is {{ bindings.order }}?", bind="found", id="look").given(order="8812")


class Place(NamedTuple):
    """The platform that all tests here share, and who receives its spans."""

    platform: Platform
    client: Client
    nats: Client
    http: httpx2.AsyncClient
    receiver: Receiver


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    with temporary_folder() as folder, otlp_receiver() as receiver:
        policy = yaml.safe_load((SAMPLE / "policy.yaml").read_text("utf-8"))
        (folder / "policy.yaml").write_text(yaml.safe_dump({**policy, "rules": [*policy["rules"], *RULES]}), "utf-8")
        platform = Platform(
            folder / "data",
            environment={"TOWPATH_OTLP_ENDPOINT": receiver.url, "SHOP_DATABASE": str(folder / "orders.sqlite3")},
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(SAMPLE / "tools.py"),))],
            durable=False,
            starts="fork",
        )
        async with (
            platform,
            httpx2.AsyncClient(base_url=platform.client_url, verify=False, timeout=90) as http,
            Client(platform.client_url) as client,
            Client(platform.nats_url) as nats,
        ):
            async with asyncio.timeout(90):
                while not await published(client):  # noqa: ASYNC110 - nothing announces tools
                    await asyncio.sleep(0.1)
            yield Place(platform, client, nats, http, receiver)


async def published(client: Client) -> bool:
    """Publish the networks, as soon as the worker's tools are known."""
    try:
        for spec in (SAMPLE / "network.yaml", PLANNING, ASKING):
            await client.networks.publish(spec)
    except RefusedError:
        return False
    return True


async def test_e8_every_way_in_runs_agents_the_same_way(place: Place) -> None:
    """Row E8: one execution path: HTTP, SDK, tool and plan all run agents the same way; child runs queryable."""
    client = place.client
    alone = await client.run("support", "What is 8812?", agent_key="tech", script=LOOKS, timeout=90)
    sdk = await client.run("support", plan=LOOK, script=LOOKS, timeout=90)
    task = {"network": "support", "plan": LOOK.to_json(), "script": LOOKS}
    answer = await place.http.post("/v1/runs", json=task, headers={"Prefer": "wait=60"})
    nats = await place.nats.run("support", plan=LOOK, script=LOOKS, timeout=90)
    call = {**use("agent_orchestrate", plan=LOOK.to_json()["plan"], bindings={"order": "8812"}), "agent": "boss"}
    tool = await client.run("planning", "Look.", script=[call, *LOOKS, says("A lamp.", agent="boss")], timeout=90)
    (asked,) = (await client.runs(parent_run_id=tool.run_id)).runs
    assert (asked.kind, asked.depth, asked.status) == ("plan", 1, "completed")
    for top in (sdk, await client.result(answer.json()["run_id"], 90), nats, asked):
        (child,) = (await client.runs(parent_run_id=top.run_id)).runs
        assert (child.kind, child.agent_key, child.user_message) == ("network", "tech", "What is 8812?")
        below, same = [[e.event.type async for e in client.events(one.run_id)] for one in (child, alone)]
        assert below == same
        assert child.root_run_id == (tool.run_id if top is asked else top.run_id)
        shown = await client.plan(top.run_id)
        assert [(one.id, one.status, one.agents[0].run_id) for one in shown.steps] == [
            ("look", "success", child.run_id)
        ]
    assert sdk.output is not None and sdk.output.bindings == {"found": {"message": "It is a lamp."}}
    assert sdk.output.steps[0].outputs == alone.final


async def test_c11_a_plan_that_a_person_edits_is_refused_at_once_where_it_can_not_be_carried_out(place: Place) -> None:
    """Row C11: an edit is checked like a new call: what would only fail later is refused whole, with its place."""
    call = {**use("agent_orchestrate", plan=LOOK.to_json()["plan"], bindings={"order": "8812"}), "agent": "boss"}
    accepted = await place.client.submit("asking", "Look.", script=[call, *LOOKS, says("A lamp.", agent="boss")])
    (gate,) = await gates_below(place.client, accepted.run_id)
    plan = {"steps": [{"type": "agent", "id": "look", "agent": {"agent_key": "ghost", "prompt": "Look."}}]}
    edit = f"/v1/gates/{gate.gate_id}/edit"
    refused = await place.http.post(edit, json={"args": {"plan": plan}})
    assert (refused.status_code, refused.json()["code"]) == (422, "edit_refused"), refused.text
    (fault,) = refused.json()["errors"]
    assert fault["pointer"].startswith("/args/plan/steps/0") and "ghost" in fault["detail"]
    plan["steps"][0]["agent"]["agent_key"] = "tech"
    taken = await place.http.post(edit, json={"args": {"plan": plan}})
    assert taken.json().get("code") == "requester_may_not_approve", "the plan is one: who asked may not approve it"
    await place.client.cancel(accepted.run_id, "seen")


async def test_where_money_is_limited_the_judge_of_goals_below_a_run_has_a_price(place: Place) -> None:
    """What a run may cost is known before it begins, also of goals of a plan's agents and of a team's members."""
    judged = {"goal": {"judge_model": "openai:nobody-prices-it"}, "model": "gemini:gemini-2.5-flash"}
    agents = [{"key": key, "allow_respond": True} for key in ("lead", "ann")]
    for spec in ({**PLANNING, "name": "judged"}, {"name": "team", "agents": agents, "swarm": {"mode": "team"}}):
        await place.client.networks.publish({**spec, **judged})
    wanted = plan("look").step("tech", "Look.", criteria=["results.exists(r, r.status == 'succeeded')"])
    for task in ({"network": "judged", "plan": wanted.to_json()}, {"network": "team", "user_message": "Look."}):
        refused = await place.http.post("/v1/runs", json={**task, "budget": {"usd": 1}})
        assert refused.json()["code"] == "price_unknown", refused.text
        assert "openai:nobody-prices-it" in refused.json()["detail"]
    with pytest.raises(RefusedError) as unknown:
        await place.client.networks.publish({**PLANNING, "goal": {"judge_model": "mistral:large"}})
    assert [(one.pointer, one.code) for one in unknown.value.problem.errors] == [("/goal/judge_model", "model_unknown")]


async def test_e8_child_runs_are_found_by_their_family(place: Place) -> None:
    """Row E8: child runs queryable with parent links."""
    client = place.client
    twice = LOOK.step("tech", "And {{ result.found.message }}?", id="again")
    run = await client.run("support", plan=twice, script=[*LOOKS, says("Yes.", agent="tech")], timeout=90)
    listed = (await client.runs(root_run_id=run.run_id, depth=1)).runs
    assert {one.parent_run_id for one in listed} == {run.run_id} and len(listed) == 2
    assert run.run_id in {one.run_id for one in (await client.runs(depth=0, kind="plan", limit=200)).runs}
    assert (await client.runs(root_run_id=listed[0].run_id)).runs == ()
    top = await client.tree(run.run_id)
    assert [(one.purpose, one.subject) for one in top.children] == [("plan_step", "look"), ("plan_step", "again")]
    with pytest.raises(RefusedError) as refused:
        await client.plan(listed[0].run_id)
    assert refused.value.code == "not_a_plan"


@pytest.mark.parametrize(
    ("way", "caller", "stranger", "code"),
    [("client", "local", "anonymous", "run_not_found"), ("nats", "anonymous", "alice", "forbidden")],
)
async def test_c11_a_person_holds_a_tree_of_runs_and_puts_a_gate_on_it(
    place: Place, way: str, caller: str, stranger: str, code: str
) -> None:
    """Row C11: a person may ask for a gate at any time; a pause holds every run of the tree until it is lifted."""
    client: Client = getattr(place, way)
    slow = [{**says(f"{key} is done.", agent=key), "delay_ms": 3_000} for key in ("tech", "billing")]
    both = plan("both").parallel(call("tech", "Look."), call("billing", "Look too."), id="both")
    top = await client.submit("support", plan=both, script=slow)
    running = partial(place.client.runs, parent_run_id=top.run_id, status="running")
    await until(running, lambda found: len(found.runs) == 2)
    paused = await client.pause(top.run_id, "who asked for this?")
    assert paused.runs == 3
    # The answer does not wait until the run that has children shows it.
    tree = await until(partial(place.client.tree, top.run_id), lambda tree: tree.status != "running")
    assert [tree.status, *(child.status for child in tree.children)] == ["waiting"] * 3
    assert (await client.pause(top.run_id)).runs == 3, "a repeated pause changes nothing"
    waits = (await client.get(top.run_id)).waits
    assert len(waits) == 3 and waits[0] == f"run_paused: {caller} paused the run: who asked for this?"
    async with Client(place.platform.nats_url, caller=stranger) as other:
        with pytest.raises(TowpathError, match=code):
            await other.resume(top.run_id)
    with pytest.raises(RefusedError) as unread:
        await client.note(top.run_id, "Hurry.")
    with pytest.raises(RefusedError) as aimless:
        await client.check_confidence(tree.children[0].run_id)
    assert (unread.value.code, aimless.value.code) == ("note_not_read", "not_a_goal")
    first = tree.children[0].run_id
    gate = await client.gate(first, "is this one needed?")
    own = await client.pause(first, "not this one yet")
    assert own.runs == 1 and await client.pause(first) == own, "what holds it from above is no pause of its own"
    assert (await client.resume(tree.children[1].run_id)).runs == 1, "neither what is above it nor beside it"
    assert (await client.get(top.run_id)).waits[0].startswith("run_paused")
    assert (await client.resume(top.run_id)).runs == 2
    assert gate.gate_id is not None and (await place.client.gates.show(gate.gate_id)).status == "pending"
    await place.client.gates.approve(gate.gate_id, reason="yes")
    assert own.gate_id is not None and (await place.client.gates.show(own.gate_id)).status == "pending"
    assert (await client.get(first)).waits == (f"run_paused: {caller} paused the run: not this one yet",)
    assert (await client.resume(first)).runs == 1
    assert (await client.result(top.run_id, 60)).status == "completed"
    with pytest.raises(RefusedError) as ended:
        await client.resume(top.run_id)
    assert ended.value.code == "run_not_live"
    entries = (await place.http.get(f"/v1/audit?run_id={top.run_id}")).json()["entries"]
    acts = [(one["phase"], one["actor"]) for one in reversed(entries) if one["phase"].startswith("run.")]
    assert acts == [(phase, caller) for phase in ("run.paused", "run.paused", "run.resumed")]


async def test_e8_a_plan_is_forked_from_a_step_with_the_results_of_those_before_it(place: Place) -> None:
    """Row E8: one execution path; what failed is done anew, and no agent before it is asked again."""
    client, wanted = place.client, LOOK.step("billing", "Really {{ result.found.message }}?", id="ask")
    failed = await client.run("support", plan=wanted, script=[*LOOKS, use("x"), use("y")], max_steps=2, timeout=60)
    fork = await client.fork(failed.run_id, 2, script=[says("Yes.", agent="billing")])
    assert (failed.status, (await client.result(fork.run_id, 60)).status) == ("failed", "completed")
    (asked,) = (await client.runs(parent_run_id=fork.run_id)).runs
    shown = await client.plan(fork.run_id)
    assert asked.user_message == "Really It is a lamp.?" and [one.status for one in shown.steps] == ["success"] * 2


async def gates_below(client: Client, root: UUID) -> tuple[GateView, ...]:
    """Return the gates of a run and of the runs below it, as soon as there is one."""
    return await until(partial(client.gates.list, root_run_id=root), bool)


async def test_e8_a_run_that_waits_for_a_run_below_it_says_for_whom(place: Place) -> None:
    """Row E8: child runs queryable, and so are the gates that their parents wait for."""
    client = place.client
    refund = {**use("orders.refund", order_id="8812", amount=500, reason="broken"), "agent": "billing"}
    wanted = plan("back").step("billing", "Refund it.", id="back").step("tech", "Look.", id="look")
    top = await client.submit("support", plan=wanted, script=[refund, says("No.", agent="billing"), *LOOKS])
    other = await client.submit("support", "Refund it.", agent_key="billing", script=[refund, says("No.")])
    held = await gates_below(client, top.run_id)
    (gate,) = held
    assert gate.run_id != top.run_id and gate.network == "support"
    # A run hears a moment later that one below it waits.
    view = await until(partial(client.get, top.run_id), lambda view: view.status == "waiting")
    assert view.waits == (f"billing in run {gate.run_id}: approval: {gate.reason}",)
    assert (await client.get(gate.run_id)).waits == (f"approval: {gate.reason}",)
    shown = await client.plan(top.run_id)
    stand = [one.status for one in (shown, *shown.steps, *shown.steps[0].agents)]
    assert stand == ["waiting", "waiting", "pending", "waiting"], "its plan says so too"
    await gates_below(client, other.run_id)
    assert await client.gates.list(root_run_id=top.run_id) == held, "and those of no other run"
    unknown = await place.http.get("/v1/gates", params={"root_run": str(top.run_id), "x": "1"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "request_invalid")
    assert [(one["pointer"], one["code"]) for one in unknown.json()["errors"]] == [
        ("/query/root_run", "parameter_unknown"),
        ("/query/x", "parameter_unknown"),
    ]
    assert "did you mean 'root_run_id'?" in unknown.json()["errors"][0]["detail"]
    for run_id in (top.run_id, other.run_id):
        await client.cancel(run_id)
        await client.result(run_id, 60)
    assert await client.gates.list(root_run_id=top.run_id) == ()


async def test_e9_a_plan_is_waited_for_and_never_lost(place: Place) -> None:
    """Row E9: `POST /run` answers 408 with id and state; 202 with location, also when the wait is over; idempotency."""
    slow = {"network": "support", "plan": LOOK.to_json(), "script": [says("Late.", agent="tech", delay_ms=50_000)]}
    late = await place.http.post("/run", json=slow, headers={"Prefer": "wait=1"})
    body = late.json()
    assert (late.status_code, body["code"]) == (408, "timeout"), body
    assert body["extra"]["status"] in {"queued", "running"}
    assert late.headers["location"] == f"/v1/runs/{body['run_id']}"
    key = {"Idempotency-Key": uuid4().hex, "Prefer": "wait=1"}
    first = await place.http.post("/v1/runs", json=slow, headers=key)
    assert first.status_code == 202 and first.headers["location"] == f"/v1/runs/{first.json()['run_id']}"
    assert first.headers["preference-applied"] == "wait=1"
    again = await place.http.post("/v1/runs", json=slow, headers={"Idempotency-Key": key["Idempotency-Key"]})
    assert (again.status_code, again.json()["run_id"], again.json()["duplicate"]) == (202, first.json()["run_id"], True)
    changed = {**slow, "plan": LOOK.given(order="1").to_json()}
    assert (await place.http.post("/v1/runs", json=changed, headers=key)).json()["code"] == "idempotency_conflict"
    for run_id in (body["run_id"], first.json()["run_id"]):
        await until(partial(place.client.plan, run_id), lambda plan: [one.status for one in plan.steps] == ["running"])
        await place.client.cancel(run_id)
    for run_id in (body["run_id"], first.json()["run_id"]):
        assert (await place.client.result(run_id, 90)).status == "cancelled"
        shown = await place.client.plan(run_id)
        assert (shown.state, [one.status for one in shown.steps], shown.success) == ("failed", ["failed"], False)


async def test_e9_the_log_of_a_plan_is_taken_up_where_it_was_left(place: Place) -> None:
    """Row E9: SSE with Last-Event-ID; what is wrong with a plan is reported at its place."""
    run = await place.client.run("support", plan=LOOK, script=LOOKS, timeout=90)
    every = [entry async for entry in place.client.events(run.run_id)]
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "3"}
    async with place.http.stream("GET", f"/v1/runs/{run.run_id}/events", headers=headers) as stream:
        read = [frame async for frame in frames(stream) if frame.id]
    assert [int(frame.id or 0) for frame in read] == [entry.seq for entry in every[3:]]
    assert "plan_moved" in {frame.event for frame in read}
    task = {"network": "support", "plan": LOOK.to_json(), "script": LOOKS}
    done = (await place.http.post("/run", json=task, headers={"Prefer": "wait=60"})).json()
    assert (done["status"], done["final"]["success"], done["final"]["steps"][0]["id"]) == ("completed", True, "look")
    wrong = {
        "network": "support",
        "plan": {"plan": {"steps": [{"type": "agent", "agent": {"agent_key": "x", "prompt": "go"}}]}},
    }
    refused = await place.http.post("/v1/runs", json=wrong)
    assert (refused.status_code, refused.json()["code"]) == (422, "plan_invalid")
    assert [one["pointer"] for one in refused.json()["errors"]] == ["/plan/plan/steps/0/agent/agent_key"]


async def test_e8_a_plan_is_given_on_the_command_line(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row E8: the command line runs plans the same way, and shows what became of every step."""
    (file := tmp_path / "look.yaml").write_text(yaml.safe_dump(LOOK.to_json()["plan"]), "utf-8")
    (script := tmp_path / "script.json").write_text(json.dumps(LOOKS), "utf-8")

    async def shown(*words: str) -> str:
        code = await asyncio.to_thread(main, [*words, "--server", place.platform.client_url])
        printed = capsys.readouterr()
        assert code == 0, printed
        return printed.out

    assert "is valid: 1 step" in await shown(
        "plans", "check", str(file), "--network", "support", "--set", "order=8812", "-o", "table"
    )
    given = ["--plan", str(file), "--set", "order=8812", "--script", str(script), "--wait", "90s"]
    table = await shown("run", "support", *given, "-o", "table")
    assert "1 of 1 step succeeded" in table and "plan     step look: success" in table
    (line,) = [line.split() for line in table.splitlines() if line.startswith("  ✓ look ")]
    assert (line[2], line[-2]) == ("success", "tech")
    tree = json.loads(await shown("runs", "list", "--depth", "1", "--limit", "1", "-o", "json"))
    assert tree["runs"][0]["run_id"] == line[-1]


async def run(client: httpx2.AsyncClient) -> str:
    task = {"network": "support", "agent_key": "billing", "user_message": SECRET, "script": SCRIPT}
    headers = {"traceparent": f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01", "Prefer": "wait=60"}
    answer = await client.post("/v1/runs", json=task, headers=headers)
    assert answer.json()["status"] == "completed", answer.text
    return str(answer.json()["run_id"])


async def test_e10_a_run_and_everything_below_it_is_one_trace(place: Place) -> None:
    """Row E10: telemetry per step: agent, plan, step, its agents, their models and tools, over all processes."""
    call = {**use("agent_orchestrate", plan=LOOK.to_json()["plan"], bindings={"order": "8812"}), "agent": "boss"}
    script = [call, *LOOKS, says("A lamp.", agent="boss")]
    view = await place.client.run("planning", "Look.", script=script, timeout=90)
    await eventually(lambda: whole(check_plan_tree, place.receiver, view), within_s=60)
    check_plan_tree(place.receiver, view)
    leaf = (await place.client.tree(view.run_id)).children[0].children[0]
    looked = await place.http.get(f"/v1/runs/{leaf.run_id}")
    assert looked.json()["trace_id"] == view.run_id.hex
    assert looked.headers["traceresponse"].split("-")[1] == view.run_id.hex


async def test_one_run_is_one_trace_and_a_hanging_receiver_stops_nothing(place: Place) -> None:
    receiver = place.receiver
    run_id = await run(place.http)
    await eventually(
        lambda: {span.service for span in receiver.spans if span.trace_id == CLIENT_TRACE} == SERVICES, within_s=60
    )
    await eventually(lambda: whole(check_tree, receiver, run_id), within_s=60)  # every process sends once a second
    check_tree(receiver, run_id)
    receiver.behaviour = "hang"
    begun = time.monotonic()
    for _ in range(3):
        await run(place.http)
    assert time.monotonic() - begun < 60
    receiver.released.set()
