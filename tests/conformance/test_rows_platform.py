"""Rows on the running platform: the HTTP shape of POST /run, one span tree per run, model calls, loops."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.support.decider.model_servers import DIALECTS
from tests.support.platform.goal_platform import use
from tests.support.platform.marked_runs import NETWORK
from tests.support.platform.watched_platform import Watched, roots, watched_platform
from tests.support.platform.watched_runs import (
    CALLER,
    SCRIPT,
    SECRET,
    TRACE,
    TREE,
    answers,
    events_of,
    gates_of,
    printed,
    run,
    says,
    task_of,
)
from tests.support.waiting import eventually

from towpath import Agent, Client, Swarm

pytestmark = pytest.mark.asyncio(loop_scope="module")

GEMINI = DIALECTS["gemini"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched() -> AsyncIterator[Watched]:
    async with watched_platform() as found:
        yield found


async def test_a13_post_run_answers_in_the_shape_of_the_source_and_debug_adds_raw_texts(watched: Watched) -> None:
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        plain = await run(client)
        assert plain["final"] == {"message": "done"}
        assert [entry["type"] for entry in plain["execution_log"]] == ["agent", "tool", "agent"]
        assert len(plain["tool_refs"]) == 1 and len(plain["instructions"]) == 2
        assert SECRET not in json.dumps({k: v for k, v in plain.items() if k != "execution_log"})
        debugged = await run(client, debug=True, max_steps=5)
        texts = json.dumps(debugged)
        assert "look first" in texts and SECRET in texts
        assert len(json.dumps(debugged)) > len(json.dumps(plain))
        capped = await run(client, max_steps=1)
        assert capped["final"]["error"] == "max_steps_exceeded"
        assert [entry["type"] for entry in capped["execution_log"]] == ["agent", "tool"]
        unknown = await client.post("/run", json={"network": "marks", "user_message": "x", "surprise": 1})
        assert unknown.status_code == 422 and unknown.headers["content-type"] == "application/problem+json"


@pytest.mark.prints("networks invoke", "networks prompt", "runs log")
async def test_a15_logs_and_prompts_are_had_from_python_and_at_the_terminal(
    watched: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows A13 and A15: the log of a run that was submitted in any way; a prompt and an instruction without a model."""
    (tmp_path / "decision.json").write_text(json.dumps(SCRIPT[0]), "utf-8")
    async with Client(watched.platform.client_url) as client:
        done = await client.run("marks", SECRET, script=SCRIPT, timeout=60)
        log = await client.execution_log(done.run_id)
        shown = await client.networks.prompt("marks", SECRET)
        one = await client.networks.invoke("marks", SCRIPT[0], agent_key="a")
        asked = (await client._transport.request("POST", "/run", body=task_of(debug=True)))["debug"]["steps"]
    assert [entry["type"] for entry in log.execution_log] == ["agent", "tool", "agent"]
    assert len(log.tool_refs) == 1 and len(log.instructions) == 2
    assert shown == asked[0]["prompt"]
    assert (one.status, one.last_output) == ("completed", {"n": 1})
    told = await printed(watched, capsys, "runs", "log", str(done.run_id))
    assert told["tool_refs"] == [str(ref) for ref in log.tool_refs]
    assert (await printed(watched, capsys, "networks", "prompt", "marks", SECRET))["prompt"] == shown
    words = ("networks", "invoke", "marks", str(tmp_path / "decision.json"), "--agent", "a")
    assert (await printed(watched, capsys, *words))["last_output"] == {"n": 1}


async def test_a14_a_run_is_one_tree_of_spans_without_prompts(watched: Watched) -> None:
    """Row A14: from the caller's span over HTTP, NATS, SQL and the model's server to the worker and back, one trace."""
    watched.server.play(*says(SCRIPT[0], answers(message="done")))
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        asked = {"script": None, "model": "local:qwen3", "headers": {"traceparent": f"00-{TRACE}-{CALLER}-01"}}
        answer = await run(client, **asked)
        assert (answer["trace_id"], answer["final"]) == (TRACE, {"message": "done"})
    await eventually(lambda: TREE.keys() <= {span.name for span in watched.spans(TRACE)}, within_s=60)
    await eventually(lambda: len(roots(watched.spans(TRACE))) == 1, within_s=60)  # each service sends its own
    spans = watched.spans(TRACE)
    by_id = {span.span_id: span for span in spans}
    (root,) = roots(spans)
    assert (root.name, root.parent_id) == ("POST /run", CALLER), "the caller's span is the parent of the whole tree"
    for name, above in TREE.items():
        assert {by_id[span.parent_id].name for span in spans if span.name == name and span is not root} <= {above}, name
    run_ids = {span.attributes.get("gen_ai.conversation.id") for span in spans if span.name == "invoke_workflow marks"}
    assert run_ids == {answer["run_id"]}
    (submit,) = (span for span in spans if span.name.startswith("task.submit."))
    below = [span for span in spans if span.parent_id == submit.span_id]
    assert {span.attributes["db.system"] for span in below} == {"postgresql"}, "statements of a request are its parts"
    (sent, *_) = (span for span in spans if span.name == "POST" and by_id[span.parent_id].name == "chat qwen3")
    chat = by_id[sent.parent_id].attributes
    assert (chat["gen_ai.response.model"], chat["gen_ai.response.finish_reasons"]) == ("qwen3", ["stop"])
    assert (sent.service, sent.attributes["http.status_code"]) == ("towpath-decider", 200)
    assert watched.server.seen[0].headers["traceparent"] == f"00-{TRACE}-{sent.span_id}-01", "and it goes on from there"
    events = {name: attributes for span in spans for name, attributes in span.events}
    assert events["towpath.decision"]["towpath.action"] in {"USE_TOOL", "RESPOND"}
    assert events["towpath.tool.request"] == {"towpath.preview": '{"n":1}'}
    assert "towpath.tool.response" in events
    assert not any("_INBOX" in span.name for span in watched.receiver.spans), "a name is one of few"
    assert {span.service for span in spans} >= {
        "towpath-orchestrator",
        "towpath-tas",
        "towpath-decider",
        "towpath-worker",
    }, {span.service for span in spans}
    assert SECRET not in repr(spans)


async def test_a8_what_the_platform_fills_in_leaves_it_in_no_span_prompt_or_log(watched: Watched) -> None:
    """Row A8: system parameters are never shown: not to the model, not in the log, not to a receiver of spans."""
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        script = [use("mark.account", n=1), SCRIPT[1]]
        answer = await run(client, network="bare", script=script, system_params={"account": "SYSVAL"}, debug=True)
        trace = str(answer["trace_id"])
    assert answer["last_output"] == {"n": 1, "letters": 6}, "the tool had it"
    assert "SYSVAL" not in json.dumps(answer)
    await eventually(lambda: "tool_call mark.account" in {span.name for span in watched.spans(trace)}, within_s=60)
    (call,) = (span for span in watched.spans(trace) if span.name == "tool_call mark.account")
    assert dict(call.events)["towpath.tool.request"] == {"towpath.preview": '{"n":1}'}
    assert "SYSVAL" not in repr(watched.receiver.spans)


async def test_b8_the_third_equal_call_inside_a_run_is_not_run_and_the_fourth_ends_it(watched: Watched) -> None:
    """Row B8: loop detection on order-free canonical signatures, threshold 3, fires on the third, inside a run."""
    pair = [("mark.pure", 1), ("mark.idempotent", 2)]

    def together(order: list[tuple[str, int]]) -> dict[str, Any]:
        calls = [{"tool_name": name, "tool_params": {"n": n}} for name, n in order]
        return {"action": "USE_TOOL", "action_reasoning": "again", "action_details": {"calls": calls}}

    script = [together(pair), together(pair[::-1]), together(pair), together(pair[::-1])]
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        answer = await run(client, script=script)
        events = await events_of(client, answer["run_id"])
    assert answer["final"]["error"] == "loop_detected"
    found = [(e["detector"], e["count"], e["action"]) for e in events if e["type"] == "loop_detected"]
    assert found == [("calls", 3, "nudge"), ("calls", 3, "stop")]
    assert sum(event["type"] == "tool_call_finished" for event in events) == 4, "the third pair was never run"


async def test_b7_results_keep_the_order_of_calls_and_a_turn_with_an_unknown_tool_is_none(watched: Watched) -> None:
    """Row B7: exceptions are results at their place; nothing of a turn with a mistake is done by half."""
    mixed = [("mark.pure", {"n": 1}), ("mark.broken", {"why": "no ink"}), ("mark.pure", {"n": 2})]
    turns = [
        {**SCRIPT[0], "action_details": {"calls": [{"tool_name": name, "tool_params": args} for name, args in calls]}}
        for calls in (mixed, [*mixed, ("ghost", {})])
    ]
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        answer = await run(client, network="bare", script=[*turns, SCRIPT[1]])
    told = [(one["type"], one.get("tool_key"), one.get("status")) for one in answer["execution_log"]]
    made = [("tool", "mark.pure", "ok"), ("tool", "mark.broken", "error"), ("tool", "mark.pure", "ok")]
    assert told == [("agent", None, None), *made, ("agent", None, None), ("system", None, None), ("agent", None, None)]


async def test_c5_three_equal_errors_of_a_goal_run_open_one_gate_and_a_person_clears_the_count(
    watched: Watched,
) -> None:
    """Row C5: 3 equal normalised errors → gate; one gate per loop; a person's word clears the count."""
    unknown = [
        {"action": "USE_TOOL", "action_reasoning": "try", "action_details": {"tool_name": name, "tool_params": {}}}
        for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    ]
    task = {"network": NETWORK["name"], "goal": {"goal": "Find the right tool."}, "script": unknown}
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        answer = await client.post("/v1/runs", json=task)
        assert answer.status_code in {200, 201, 202}, answer.text
        run_id = answer.json()["run_id"]
        (gate,) = await gates_of(client, run_id, 1)
        assert gate["gate_type"] == "loop_detected" and gate["detail"]["detector"] == "errors"
        found = [event for event in await events_of(client, run_id) if event["type"] == "loop_detected"]
        assert [(event["detector"], event["count"], event["action"]) for event in found] == [("errors", 3, "gate")]
        resolved = await client.post(f"/v1/gates/{gate['gate_id']}/approve", json={"reason": "go on"})
        assert resolved.status_code == 200, resolved.text
        _, second = await gates_of(client, run_id, 2)
        assert second["gate_id"] != gate["gate_id"] and second["detail"]["count"] == 3
        assert (await client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})).status_code < 300


async def test_c3_each_kind_of_run_has_a_time_of_its_own_and_its_caller_is_told(watched: Watched) -> None:
    """Rows C3 and D2: no goal or objective is cut off after minutes; what holds where nobody says anything."""
    step = {"type": "agent", "agent": {"agent_key": "a", "prompt": "Mark."}}
    asked: dict[str, dict[str, Any]] = {
        "message": {"user_message": "Mark it."},
        "goal": {"goal": {"goal": "Mark it."}},
        "plan": {"plan": {"plan": {"steps": [step]}}},
        "background": {"background": {"objective": "Mark it."}},
        "less": {"background": {"objective": "Mark it.", "settings": {"max_iterations": 7}}, "timeout_ms": 60_000},
    }
    times, runs = {}, {}
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        for kind, task in asked.items():
            answer = (await client.post("/v1/runs", json={"network": "bare", "script": [SCRIPT[1]], **task})).json()
            times[kind] = answer["timeout_ms"] // 60_000
            runs[kind] = (await events_of(client, answer["run_id"]))[0]
    assert times == {"message": 5, "goal": 30, "plan": 60, "background": 7 * 24 * 60, "less": 1}
    bare, less = runs["background"], runs["less"]
    assert (bare["max_steps"], less["max_steps"]) == (24, 7), "max_iterations is another name of it"
    settings = {name: bare["background"]["settings"][name] for name in ("max_failures", "allow_plan_reset")}
    assert settings == {"max_failures": 8, "allow_plan_reset": True}


async def test_b10_a_pair_that_works_in_every_turn_comes_to_its_last_handoff_nested_too(watched: Watched) -> None:
    """Row B10: the limit of handoffs decides, not the steps that the work between them takes, nor those around it."""
    agents = [Agent(key, tools=["mark.pure"], routes=[other]) for key, other in ("xy", "yx")]
    pair = Swarm("pair", agents, mode="handoff", max_handoffs=3, agent_steps=2)
    around = Swarm("around", [Agent("z"), pair], mode="workflow", agent_steps=2)
    turns = [(use("mark.pure", n=n), {**SCRIPT[1], "action_details": {"payload": "yx"[n % 2]}}) for n in range(4)]
    script = [{**one, "agent": "xy"[n % 2]} for n, turn in enumerate(turns) for one in turn]
    async with Client(watched.platform.client_url) as client:
        for network in (pair, around):
            await client.networks.publish(network)
        alone = await client.run("pair", "Mark in turn.", script=script, timeout=60)
        view = await client.run("around", "Mark in turn.", script=[*script, {**SCRIPT[1], "agent": "z"}], timeout=60)
        _, nested = (await client.tree(view.run_id)).children
    for one in (alone, nested):
        assert (one.status, one.reason, one.step) == ("failed", "max_handoffs_exceeded", 8)


async def test_b10_a_pair_that_works_in_every_turn_comes_to_its_last_handoff(watched: Watched) -> None:
    """Row B10: with no setting at all ten handoffs decide, not the steps that the work between them takes."""
    pair = [Agent(key, tools=["mark.pure"], routes=[other]) for key, other in ("xy", "yx")]
    turns = [(use("mark.pure", n=n), {**SCRIPT[1], "action_details": {"payload": "yx"[n % 2]}}) for n in range(11)]
    script = [{**one, "agent": "xy"[n % 2]} for n, turn in enumerate(turns) for one in turn]
    async with Client(watched.platform.client_url) as client:
        await client.networks.publish(Swarm("pair", pair, mode="handoff"))
        view = await client.run("pair", "Mark in turn.", script=script, timeout=60)
    assert (view.status, view.reason, view.step) == ("failed", "max_handoffs_exceeded", 22)


async def test_a12_eight_tool_errors_that_differ_end_a_run(watched: Watched) -> None:
    """Row A12: the default budget decides; a tool's one code for many reasons is no loop before it."""
    words = ("apples", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey", "ice")
    script = [use("mark.broken", why=f"out of {word}") for word in words]
    async with httpx2.AsyncClient(base_url=watched.platform.client_url, timeout=60) as client:
        answer = await run(client, network="bare", script=script)
    assert (answer["final"]["error"], answer["steps"], len(answer["tool_refs"])) == ("max_tool_errors_exceeded", 8, 8)
