"""The HTTP API on the whole platform: with keys, approvals and a killed orchestrator."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import yaml
from pydantic import SecretStr
from tests.support.gateway.audited_acts import act, entries_of
from tests.support.gateway.sse import frames
from tests.support.places import EXAMPLES
from tests.support.platform.objective_runs import use
from tests.support.waiting import eventually

from towpath import run
from towpath.cli import main
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAMPLE = EXAMPLES / "support"


NO_PLANS = {"TOWPATH_AGENT_ORCHESTRATE_ENABLED": "false"}
FIND = use("orders.find", order_id="8812")
REFUND = use("orders.refund", order_id="8812", amount=129)
ANSWER = {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}}
TASK = {"network": "support", "agent_key": "billing", "user_message": "Refund order 8812"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        running = Platform(
            folder / "data",
            replicas={"orchestrator": 2},
            environment={"SHOP_DATABASE": str(folder / "orders.sqlite3")},
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(SAMPLE / "policy.yaml"), **NO_PLANS},
                "gateway": {"TOWPATH_AUTH": "on"},
                "orchestrator": {"TOWPATH_MAX_DEPTH": "0", "TOWPATH_MAX_PLAN_STEPS": "2"},
            },
            workers=[WorkerLaunch(modules=(str(SAMPLE / "tools.py"),))],
            durable=False,
            starts="fork",
        )
        async with running:
            yield running


async def key_for(platform: Platform, caller: str, project: str = "default") -> str:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    new = CreateKeyBody(caller=caller, scopes=SCOPES, roles=("approver", "policy_admin", "operator"))
    return await create_key(settings, new, project)


def client_of(platform: Platform, key: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.AsyncClient(base_url=platform.gateway_url, verify=False, headers=headers, timeout=60)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alice(platform: Platform) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the default project, with the sample network published."""
    async with client_of(platform, await key_for(platform, f"alice-{uuid.uuid4().hex[:6]}")) as client:
        spec = yaml.safe_load((SAMPLE / "network.yaml").read_text())
        for _ in range(300):
            published = await client.post("/v1/networks", json={"spec": spec})
            if published.status_code in {200, 201}:
                break
            await asyncio.sleep(0.2)
        assert published.status_code in {200, 201}, published.text
        yield client


async def test_run_returns_the_transcript_and_the_raw_texts(alice: httpx2.AsyncClient) -> None:
    answer = await alice.post("/run", json={**TASK, "script": [FIND, ANSWER], "debug": True})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["status"], body["final"]) == ("completed", {"message": "done"})
    assert [entry["type"] for entry in body["execution_log"]] == ["agent", "tool", "agent"]
    assert [step["step"] for step in body["debug"]["steps"]] == [1, 2]
    assert all(step["prompt"] and step["raw_text"] for step in body["debug"]["steps"])
    payload = (await alice.get(f"/v1/runs/{body['run_id']}/tools/{body['tool_refs'][0]}")).json()
    assert payload["merged_params"] == {"order_id": "8812"}
    assert payload["result"]["order_id"] == "8812"
    silent = (await alice.post("/run", json={**TASK, "script": [FIND, ANSWER]})).json()
    assert silent["debug"] is None
    assert "You are billing" not in json.dumps(silent)


async def test_a_run_over_its_steps_answers_with_its_transcript(alice: httpx2.AsyncClient) -> None:
    script = [{**FIND, "action_reasoning": str(n)} for n in range(3)]
    body = (await alice.post("/run", json={**TASK, "script": script, "max_steps": 2})).json()
    assert (body["status"], body["reason"], body["steps"]) == ("failed", "max_steps_exceeded", 2)
    assert len(body["tool_refs"]) == 2
    assert body["last_output"]["order_id"] == "8812"


async def test_a13_the_execution_log_of_any_run_can_be_read(alice: httpx2.AsyncClient) -> None:
    task = {**TASK, "agent_key": "billing", "script": [FIND, ANSWER], "system_params": {"unused": "SYSVAL"}}
    whole = (await alice.post("/run", json=task)).json()
    log = await alice.get(f"/v1/runs/{whole['run_id']}/execution-log")
    names = ("run_id", "status", "instructions", "execution_log", "tool_refs")
    assert {name: log.json()[name] for name in names} == {name: whole[name] for name in names}
    assert [entry["type"] for entry in log.json()["execution_log"]] == ["agent", "tool", "agent"]
    (ref,) = log.json()["tool_refs"]
    assert (await alice.get(f"/v1/runs/{whole['run_id']}/tools/{ref}")).json()["tool_key"] == "orders.find"
    assert (await alice.get(f"/v1/runs/{uuid.uuid4()}/execution-log")).status_code == 404


async def test_a15_one_instruction_and_one_prompt_need_no_model(alice: httpx2.AsyncClient) -> None:
    one = await alice.post("/v1/networks/support/invoke", json={"agent_key": "billing", "decision": FIND})
    assert (one.status_code, one.json()["steps"], len(one.json()["tool_refs"])) == (200, 1, 1)
    prompt = (await alice.post("/v1/networks/support/prompt", json={"agent_key": "billing"})).json()
    assert "orders.refund" in prompt["prompt"]
    task = {**TASK, "agent_key": "billing", "script": [FIND, ANSWER], "debug": True}
    sent = (await alice.post("/run", json=task)).json()["debug"]["steps"][0]["prompt"]
    asked = {"agent_key": "billing", "user_message": TASK["user_message"]}
    shown = (await alice.post("/v1/networks/support/prompt", json=asked)).json()
    assert shown["prompt"] == sent, "to the last line"
    assert (await alice.post("/v1/networks/support/prompt", json={"agent_key": "nobody"})).status_code == 422


async def test_f6_an_approval_waits_for_another_person(platform: Platform, alice: httpx2.AsyncClient) -> None:
    run_id = (await alice.post("/v1/runs", json={**TASK, "script": [REFUND, ANSWER]})).json()["run_id"]
    gate = await pending_gate(alice, run_id)
    own = await alice.post(f"/v1/gates/{gate['gate_id']}/approve")
    assert (own.status_code, own.json()["code"]) == (403, "requester_may_not_approve")
    async with client_of(platform, await key_for(platform, f"bob-{uuid.uuid4().hex[:6]}")) as bob:
        stale = await bob.post(f"/v1/gates/{gate['gate_id']}/approve", json={"digest": "sha256:" + "0" * 64})
        assert (stale.status_code, stale.json()["code"]) == (409, "digest_changed")
        yes = await bob.post(f"/v1/gates/{gate['gate_id']}/approve", json={"digest": gate["detail"]["digest"]})
        assert yes.status_code == 200, yes.text
        ended = await bob.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=60"})
        assert ended.json()["status"] == "completed"
        again = await bob.post(f"/v1/gates/{gate['gate_id']}/approve")
        assert again.status_code == 200, "the same verdict of the same person is accepted again, and counts once"
        other = await bob.post(f"/v1/gates/{gate['gate_id']}/deny", json={"reason": "changed my mind"})
        assert (other.status_code, other.json()["code"]) == (409, "gate_settled")
        entries = (await bob.get(f"/v1/audit?run_id={run_id}")).json()["entries"]
        told = [f"{one['phase']} {one['verdict']}" for one in entries[::-1]]
        assert told[:3] == ["decision require_approval", "approval.approved approved", "approval.consumed allow"]
        assert told[3:] == ["claim granted", "outcome succeeded"]


async def test_what_is_approved_while_a_run_is_paused_is_done_once_it_goes_on(
    platform: Platform, alice: httpx2.AsyncClient
) -> None:
    run_id = (await alice.post("/v1/runs", json={**TASK, "script": [FIND, REFUND, ANSWER]})).json()["run_id"]
    gate, run = await pending_gate(alice, run_id), f"/v1/runs/{run_id}"
    refused = await alice.post(f"{run}/resume"), await alice.get(f"{run}/workspace/report.md")
    assert [one.json()["code"] for one in refused] == ["run_not_paused", "file_not_found"]
    paused = (await alice.post(f"{run}/pause", json={"reason": "let me look first"})).json()
    opened = await alice.post(f"/v1/gates/{paused['gate_id']}/approve")
    assert (opened.status_code, opened.json()["code"]) == (400, "verdict_invalid")
    assert (await alice.post(f"{run}/note", json={"text": " "})).json()["code"] == "request_invalid"
    assert (await alice.post(f"{run}/note", json={"text": "The customer has called."})).status_code == 200
    async with client_of(platform, await key_for(platform, f"bob-{uuid.uuid4().hex[:6]}")) as bob:
        said = {"digest": gate["detail"]["digest"]}
        assert (await bob.post(f"/v1/gates/{gate['gate_id']}/approve", json=said)).status_code == 200
    await asyncio.sleep(1)  # by then the refund would have been made
    view = (await alice.get(run)).json()
    assert (view["status"], len(view["waits"])) == ("waiting", 1) and "let me look first" in view["waits"][0]
    assert (await alice.post(f"{run}/resume")).json()["runs"] == 1
    assert (await alice.get(run, headers={"Prefer": "wait=60"})).json()["status"] == "completed"
    log = [entry["event"] for entry in (await alice.get(f"{run}/events?limit=1000")).json()["entries"]]
    told = [event.get("verdict") or event["type"] for event in log]
    before, after = told[: told.index("resumed")], told[told.index("resumed") :]
    assert "note_given" in before and before.count("tool_call_finished") == 1
    assert after[:2] == ["resumed", "effect_resent"] and after.count("tool_call_finished") == 1
    acts = [one for one in (await alice.get(f"/v1/audit?run_id={run_id}")).json()["entries"] if "run." in one["phase"]]
    assert [one["phase"] for one in reversed(acts)] == ["run.paused", "run.note_given", "run.resumed"]
    assert all(one["actor"].startswith("alice") and one["detail"]["by_key"] for one in acts)
    assert (await alice.post(f"{run}/note", json={"text": "Too late."})).json()["code"] == "run_not_live"
    assert (await alice.get(f"{run}/replay")).json()["verdict"] == "identical"


async def test_whoever_acts_is_in_the_audit_with_the_key(platform: Platform, alice: httpx2.AsyncClient) -> None:
    key = await key_for(platform, name := f"noor-{uuid.uuid4().hex[:6]}")
    waiting, forked = ({**TASK, "script": [FIND, *more, ANSWER]} for more in ([REFUND], []))
    async with client_of(platform, key) as noor:
        wanted, entries = await act(noor, waiting, forked, name), await entries_of(alice, name)
    assert [(one["phase"], one["detail"]["reason"], one["run_id"]) for one in entries] == wanted
    named = {(one["actor"], one["detail"]["by_key"], len(one["detail"]["by_commitment"])) for one in entries}
    assert named == {(name, key[4:16], 64)} and entries[-1]["detail"]["network"] == name


async def test_a_run_says_how_many_calls_were_asked_for_allowed_denied_and_held(
    platform: Platform, alice: httpx2.AsyncClient
) -> None:
    refused = use("orders.refund", order_id="8812", amount=-1)  # by the tool's schema
    task = {**TASK, "script": [FIND, refused, REFUND, {**REFUND, "action_reasoning": "again"}, ANSWER]}
    run_id = (await alice.post("/v1/runs", json=task)).json()["run_id"]

    async def calls() -> Any:
        return (await alice.get(f"/v1/runs/{run_id}")).json()["calls"]

    async with client_of(platform, await key_for(platform, f"bob-{uuid.uuid4().hex[:6]}")) as bob:
        first = await pending_gate(alice, run_id)
        assert await calls() == {"asked": 3, "allowed": 1, "denied": 1, "held": 1}, "while it waits"
        yes = await bob.post(f"/v1/gates/{first['gate_id']}/approve", json={"digest": first["detail"]["digest"]})
        assert yes.status_code == 200, yes.text
        second = await pending_gate(alice, run_id, after=first["gate_id"])
        no = await bob.post(f"/v1/gates/{second['gate_id']}/deny", json={"reason": "once is enough"})
        assert no.status_code == 200, no.text
    ended = (await alice.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=60"})).json()
    assert (ended["status"], ended["calls"]) == ("completed", {"asked": 4, "allowed": 2, "denied": 2, "held": 2})
    listed = (await alice.get("/v1/runs")).json()["runs"]
    assert next(run["calls"] for run in listed if run["run_id"] == run_id) == ended["calls"]


async def test_a_fork_spends_what_its_parent_has_left_unless_it_has_a_budget_of_its_own(
    alice: httpx2.AsyncClient,
) -> None:
    task = {**TASK, "script": [FIND, ANSWER], "budget": {"tool_calls": 1}}
    parent = (await alice.post("/run", json=task)).json()["run_id"]
    ends = {}
    for fresh in (False, True):
        wanted = {"from_step": 2, "script": [FIND, ANSWER], "fresh_budget": fresh}
        fork = (await alice.post(f"/v1/runs/{parent}/fork", json=wanted)).json()["run_id"]
        run = (await alice.get(f"/v1/runs/{fork}", headers={"Prefer": "wait=60"})).json()
        accounts = (await alice.get(f"/v1/budgets?run_id={fork}")).json()["accounts"]
        ends[fresh] = (run["status"], run["reason"], [account["key"] for account in accounts] == [fork])
    assert ends == {False: ("failed", "budget_exceeded", False), True: ("completed", "responded", True)}


async def test_e7_settings_lower_how_deep_runs_nest_and_how_long_plans_are(alice: httpx2.AsyncClient) -> None:
    """Row E7: caps are settings; this platform allows plans of two steps, and no child runs."""
    steps = [{"type": "agent", "agent": {"agent_key": "billing", "prompt": "Look."}}] * 3
    long, short = ({"network": "support", "plan": {"plan": {"steps": steps[:n]}}} for n in (3, 2))
    refused = await alice.post("/v1/runs", json=long)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/plan/plan/steps")
    run = (await alice.post("/v1/runs", json=short, headers={"Prefer": "wait=60"})).json()
    assert (run["reason"], run["final"]["errors"][0]["error"]["code"]) == ("plan_failed", "depth_exceeded")
    assert run["final"]["errors"][0]["error"]["message"] == "children stand at most 0 deep"
    agent = {"key": "a", "is_default": True, "allow_respond": True, "equipped_tools": ["agent_orchestrate"]}
    off = (await alice.post("/v1/networks", json={"spec": {"name": "off", "agents": [agent]}})).json()
    assert "agent_orchestrate, which is switched off on this platform" in off["errors"][0]["detail"]


async def test_other_projects_see_and_reach_nothing(platform: Platform, alice: httpx2.AsyncClient) -> None:
    run_id = (await alice.post("/v1/runs", json={**TASK, "script": [REFUND, ANSWER]})).json()["run_id"]
    gate = await pending_gate(alice, run_id)
    async with client_of(platform, await key_for(platform, f"eve-{uuid.uuid4().hex[:6]}", "bank")) as eve:
        for path in ("", "/events", "/history"):
            assert (await eve.get(f"/v1/runs/{run_id}{path}")).status_code == 404
        assert (await eve.post(f"/v1/runs/{run_id}/cancel")).status_code == 404
        assert (await eve.post(f"/v1/gates/{gate['gate_id']}/approve")).status_code == 404
        assert (await eve.get("/v1/gates?status=all")).json()["gates"] == []
        assert (await eve.get("/v1/runs")).json()["runs"] == []
        assert (await eve.get("/v1/networks")).json()["networks"] == []
        assert (await eve.get(f"/v1/audit?run_id={run_id}")).json()["entries"] == []
        refused = await eve.post("/v1/runs", json={**TASK, "script": [ANSWER]})
        assert (refused.status_code, refused.json()["code"]) == (404, "network_not_found")
    assert (await alice.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})).status_code == 202
    ended = await alice.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=60"})
    assert ended.json()["status"] == "cancelled"


async def test_b4_a_finished_run_is_continued_over_http_from_python_and_at_the_terminal(
    platform: Platform, alice: httpx2.AsyncClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thread: the later prompts have the earlier turns, whoever may not read the run can't continue it."""
    turns = [{"role": "user", "content": "I ordered LAMPS."}, {"role": "assistant", "content": "Which order?"}]
    body = {**TASK, "messages": turns, "script": [FIND, ANSWER], "debug": True}
    first = (await alice.post("/run", json=body)).json()
    assert "I ordered LAMPS." in first["debug"]["steps"][0]["prompt"]
    path = f"/v1/runs/{first['run_id']}/messages"
    more = {"content": "And when was it sent?", "script": [FIND, ANSWER]}
    keyed = {"Idempotency-Key": uuid.uuid4().hex, "Prefer": "wait=60"}
    second = (await alice.post(path, json=more, headers=keyed)).json()
    assert (second["status"], second["thread_id"], second["previous_run_id"]) == ("completed", *[first["run_id"]] * 2)
    assert (await alice.post(path, json=more, headers=keyed)).json()["run_id"] == second["run_id"]
    refused = await alice.post(path, json=more)
    assert (refused.status_code, refused.json()["code"]) == (409, "run_continued")
    wrong = await alice.post(path, json={"content": "", "max_steps": 0, "words": 1})
    assert (wrong.status_code, len(wrong.json()["errors"])) == (422, 3)

    async with client_of(platform, await key_for(platform, "elsewhere", "elsewhere")) as stranger:
        assert (await stranger.post(path, json=more)).json()["code"] == "run_not_found"
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    blind = await create_key(settings, CreateKeyBody(caller="blind", scopes=("runs:write",), roles=()), "default")
    async with client_of(platform, blind) as writer:
        for asked in (path, "/v1/runs", "/run"):
            task = more if asked == path else {**TASK, "script": [ANSWER], "continues": second["run_id"]}
            assert (await writer.post(asked, json=task)).json()["code"] == "forbidden", asked
        forked = await writer.post(f"/v1/runs/{first['run_id']}/fork", json={"from_step": 2})
        assert forked.json()["code"] == "forbidden", "a fork knows what the run knew, too"

    key = alice.headers["authorization"].removeprefix("Bearer ")
    script = [FIND, ANSWER]
    third = await run.reply(second["run_id"], "Thanks.", server=platform.gateway_url, api_key=key, script=script)
    said = (await alice.get(f"/v1/runs/{third.run_id}/messages")).json()["messages"]
    assert [one["content"] for one in said if one["role"] == "user"] == [
        *("I ordered LAMPS.", TASK["user_message"], "And when was it sent?", "Thanks.")
    ]
    task = {**TASK, "user_message": "Bye.", "continues": str(third.run_id), "script": script, "debug": True}
    fourth = (await alice.post("/run", json=task)).json()
    prompt = fourth["debug"]["steps"][0]["prompt"].partition("# Context")[2]
    texts = ("LAMPS", "Which order?", TASK["user_message"], "done", "And when was it sent?", "Thanks.", "Bye.")
    places = [prompt.index(text) for text in texts]
    assert places == sorted(places), "all turns are shown in order"
    (tmp_path / "script.json").write_text(json.dumps([FIND, ANSWER]), "utf-8")
    told = ("--script", str(tmp_path / "script.json"), "--server", platform.gateway_url, "--api-key", key, "-o", "json")
    assert await asyncio.to_thread(main, ["run", "--continue", fourth["run_id"], "One more.", *told]) == 0
    fifth = json.loads(capsys.readouterr().out)
    assert (fifth["previous_run_id"], fifth["user_message"]) == (fourth["run_id"], "One more.")
    listed = (await alice.get(f"/v1/runs?thread_id={first['run_id']}")).json()["runs"]
    assert [one["run_id"] for one in listed] == [
        fifth["run_id"],
        fourth["run_id"],
        str(third.run_id),
        second["run_id"],
        first["run_id"],
    ]
    assert (await alice.get(f"/v1/runs/{second['run_id']}")).json()["next_run_id"] == str(third.run_id)


async def test_what_is_left_out_of_a_long_conversation_is_summarized_by_a_recorded_decision(
    alice: httpx2.AsyncClient,
) -> None:
    turns = [{"role": "user", "content": f"Turn {n}. " + "x" * 4_000} for n in range(12)]
    first = (await alice.post("/run", json={**TASK, "messages": turns, "script": [ANSWER]})).json()
    summary = {"kind": "summarize", "summary": "They spoke of LAMPS."}
    task = {**TASK, "user_message": "And now?", "script": [summary, ANSWER], "debug": True}
    second = (await alice.post("/run", json={**task, "continues": first["run_id"]})).json()
    assert (second["status"], second["steps"]) == ("completed", 1), "it is no step"
    asked, decided = (one["prompt"].partition("# Context")[2] for one in second["debug"]["steps"])
    assert "Turn 2." in asked and "## Turns to summarize" in asked
    assert "Turn 2." not in decided and "Turn 0." in decided
    assert decided.index("Turn 1.") < decided.index("They spoke of LAMPS.") < decided.index(TASK["user_message"])
    log = (await alice.get(f"/v1/runs/{second['run_id']}/events")).json()["entries"]
    kinds = [one["event"].get("kind", "decide") for one in log if one["event"]["type"] == "decision_received"]
    assert kinds == ["summarize", "decide"]
    assert (await alice.get(f"/v1/runs/{second['run_id']}/replay")).json()["verdict"] == "identical"
    assert (await alice.get(f"/v1/runs/{second['run_id']}/history")).status_code == 200
    task = {**task, "user_message": "And then?", "continues": second["run_id"], "script": [ANSWER]}
    third = (await alice.post("/run", json=task)).json()
    (decided,) = (one["prompt"].partition("# Context")[2] for one in third["debug"]["steps"])
    assert "They spoke of LAMPS." in decided, "a summary goes along the thread"


async def test_one_idempotency_key_is_one_run(alice: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": f"order-{uuid.uuid4()}"}
    task = {**TASK, "script": [ANSWER]}
    answers = await asyncio.gather(*(alice.post("/v1/runs", json=task, headers=headers) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    other = await alice.post("/v1/runs", json={**task, "user_message": "other"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_a_stream_is_whole_although_orchestrators_are_killed(
    platform: Platform, alice: httpx2.AsyncClient
) -> None:
    script = [
        step
        for number, order in enumerate(("8811", "8812", "8813"), 1)
        for step in (use("orders.find", order_id=order), use("orders.refund", order_id=order, amount=number))
    ]
    task = {**TASK, "script": [*script, ANSWER]}
    run_id = (await alice.post("/v1/runs", json=task)).json()["run_id"]
    seen, path = [], f"/v1/runs/{run_id}/events"
    async with alice.stream("GET", path, headers={"Accept": "text/event-stream"}) as response:
        async for frame in frames(response):
            if frame.id is not None:
                seen.append(int(frame.id))
            if frame.id in {"6", "12"}:
                names = [name for name in platform.processes if name.startswith("orchestrator")]
                platform.kill(names[0] if frame.id == "6" else names[1])
            if frame.event == "end":
                break
    page = (await alice.get(f"{path}?limit=1000")).json()
    assert seen == [entry["seq"] for entry in page["entries"]] == list(range(1, page["seq"] + 1))
    assert page["status"] == "completed"
    assert len([entry for entry in page["entries"] if entry["event"]["type"] == "tool_call_finished"]) == 6
    # The run may be over before the second one is started again.
    await eventually(lambda: sum(state.restarts for state in platform.processes.values()) >= 2)


async def pending_gate(client: httpx2.AsyncClient, run_id: str, after: str = "") -> dict[str, Any]:
    for _ in range(1_200):
        gates = (await client.get(f"/v1/gates?run_id={run_id}")).json()["gates"]
        if gates and gates[0]["gate_id"] != after:
            return dict(gates[0])
        await asyncio.sleep(0.05)
    raise AssertionError("no gate was opened")
