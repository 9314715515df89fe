"""Rows on the running platform: the HTTP shape of POST /run, one span tree per run, model calls, loops."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS
from tests.support.decider.recorded_errors import MINUTE, exhausted, key_fault, quota
from tests.support.platform.goal_platform import use
from tests.support.platform.marked_runs import NETWORK
from tests.support.platform.watched_platform import LOCAL, Watched, roots, watched_platform
from tests.support.platform.watched_runs import (
    CALLER,
    SCRIPT,
    SECRET,
    TRACE,
    TREE,
    Verdict,
    answers,
    events_of,
    gates_of,
    printed,
    run,
    says,
    shown,
    stops,
    task_of,
)
from tests.support.waiting import eventually

from towpath import Agent, Client, HostMount, RefusedError, Swarm

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
    await eventually(lambda: len(roots(watched.spans(TRACE))) == 1, within_s=10)  # each service sends its own
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


async def test_b2_a_model_string_chooses_its_provider(watched: Watched) -> None:
    """Row B2: provider from the model string `provider:model`."""
    watched.server.play(*says(answers(message="done")))
    async with Client(watched.platform.client_url) as client:
        wanted = {"temperature": 0.25, "max_output_tokens": 77}
        view = await client.run(NETWORK["name"], "Say done.", model="local:qwen3", model_settings=wanted, timeout=180)
        assert (view.status, view.final) == ("completed", {"message": "done"})
        assert view.cost is not None and (view.cost.usd, view.cost.price_source) == (0.0, "local")
        assert [seen.body["model"] for seen in watched.server.seen] == ["qwen3"]
        assert (watched.server.seen[0].body["temperature"], LOCAL.limit(watched.server.seen[0])) == (0.25, 77)
        with pytest.raises(RefusedError) as refused:
            await client.run(NETWORK["name"], "Say done.", model="qwen3", timeout=60)
        with pytest.raises(RefusedError) as stranger:
            await client.run(NETWORK["name"], "Say done.", model="mistral:large", timeout=60)
    assert refused.value.code == stranger.value.code == "model_unknown"
    assert "gemini" in str(stranger.value) and "openai" in str(stranger.value), "it says which there are"


async def test_b13_an_ordinary_limit_of_gemini_ends_no_run_and_its_native_calls_are_made(watched: Watched) -> None:
    """Rows B5 and B13: the words of a used-up account, which Gemini has for every limit per minute, with its wait."""
    limited = Answer(status=429, body=exhausted(*quota(MINUTE, retry="0.2s")))
    call = {"functionCall": {"name": "mark.pure", "args": {"n": 1}}}
    turn = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [call]}}
    watched.google.play(limited, Answer(body={"candidates": [turn]}), GEMINI.says(json.dumps(answers(message="done"))))
    goal = {
        "goal": "Mark it.",
        "acceptance_criteria": [{"when": "last_output.n == 1"}],
        "settings": {"validate_steps": False},
    }
    async with Client(watched.platform.client_url) as client:
        view = await client.run("marks", "Mark it.", model="gemini:gemini-2.5-flash", timeout=60)
        assert (view.status, view.final, view.step) == ("completed", {"message": "done"}, 2), view.final
        assert len(watched.google.seen) == 3 and view.cost is not None and view.cost.price_known
        watched.google.play(Answer(status=429, body=exhausted(*quota(MINUTE, retry="26s"))))
        asked = await client.submit("marks", "Mark it.", model="gemini:gemini-2.5-flash")
        async for entry in client.events(asked.run_id):
            if entry.event.type == "decision_postponed":
                assert (
                    (await client.get(asked.run_id))
                    .waits[0]
                    .startswith("model: gemini:gemini-2.5-flash is asked again")
                )
                await client.cancel(asked.run_id)
        assert (await client.result(asked.run_id)).status == "cancelled", "it waited for 26 s, and nothing had ended it"
        watched.google.play(Answer(body={"candidates": [turn]}))
        reached = await client.run("bare", goal=goal, model="gemini:nobody-prices-it", timeout=60)
        state = await client.goal(reached.run_id)
        assert (reached.reason, state.total_cost_usd, state.steps_history[0].cost_usd) == ("criteria_met", None, None)
        watched.google.play(Answer(status=400, body=key_fault("API key not valid. Please pass a valid API key.")))
        view = await client.run("marks", "Mark it.", model="gemini:gemini-2.5-flash", timeout=60)
        assert (view.status, view.reason, len(watched.google.seen)) == ("failed", "model_unauthorized", 1)


async def test_b13_a_malformed_call_is_never_made_and_a_recitation_that_lasts_ends_the_run(watched: Watched) -> None:
    """Rows B5 and B13: what went wrong by chance is asked for again; the model is told of calls that can't be read."""
    call = {"functionCall": {"name": "mark.pure", "args": {"n": 13}}}
    malformed, recited = stops("MALFORMED_FUNCTION_CALL", call), stops("RECITATION", {"text": "Once upon a time"})
    done = GEMINI.says(json.dumps(answers(message="done")))
    async with Client(watched.platform.client_url) as client:
        watched.google.play(malformed, malformed, malformed, recited, done)
        view = await client.run("marks", "Mark it.", model="gemini:gemini-2.5-flash", timeout=60)
        log = [entry.event async for entry in client.events(view.run_id)]
        watched.google.play(recited)
        refused = await client.run("marks", "Tell it.", model="gemini:gemini-2.5-flash", timeout=60)
        assert len(watched.google.seen) == 3
    assert (view.status, view.final, view.step) == ("completed", {"message": "done"}, 2)
    assert view.usage is not None and view.usage.model_calls == 5 and view.usage.total_tokens > 4 * 110
    (missed,) = (one for one in log if one.type == "decision_missed")
    assert missed.code == "invalid_output" and "MALFORMED_FUNCTION_CALL" in missed.message
    assert not any(one.type in ("instruction_issued", "tool_call_finished") and "13" in str(one) for one in log)
    assert (refused.status, refused.reason) == ("failed", "model_refused") and refused.final is not None
    assert "RECITATION" in refused.final["message"] and refused.usage and refused.usage.total_tokens == 3 * 110


async def test_c2_a_goal_counts_what_its_whole_tree_used(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """Row C2: tokens and money of child runs, and of theirs, are in the goal's view, in its steps and in its run."""
    inner = Swarm("inner", [Agent("chief", description="Leads."), Agent("ann", description="Counts.")], mode="team")
    reached = {"when": "results.exists(r, r.tool == 'delegate_to_inner' && r.status == 'succeeded')"}
    goal = {"goal": "Have it counted.", "acceptance_criteria": [reached], "settings": {"validate_steps": False}}
    said = [use("delegate_to_inner", task="Count."), use("delegate_to_ann", task="Count."), answers(n=7), answers(n=7)]
    watched.google.play(*(GEMINI.says(json.dumps(one)) for one in said))
    async with Client(watched.platform.client_url) as client:
        await client.networks.publish(Swarm("counters", [Agent("lead"), inner], mode="team"))
        view = await client.run("counters", goal=goal, model="gemini:gemini-2.5-flash", timeout=60)
        state = await client.goal(view.run_id)
        assert (view.reason, len(watched.google.seen)) == ("criteria_met", 4), view.final
    (call,) = state.token_usage
    assert call > 1_000 and [one.agent_id for one in state.child_runs] == ["chief"]
    assert (state.total_tokens, state.steps_history[0].tokens_used) == (4 * call, 4 * call)
    assert state.total_cost_usd == state.steps_history[0].cost_usd == pytest.approx(4 * GEMINI.usd)
    assert view.usage and view.cost and view.tree_usage and view.tree_cost
    assert (view.usage.total_tokens, view.tree_usage.total_tokens, view.tree_usage.model_calls) == (call, 4 * call, 4)
    assert (view.cost.usd, view.tree_cost.usd) == (pytest.approx(GEMINI.usd), pytest.approx(4 * GEMINI.usd))
    told = await printed(watched, capsys, "runs", "goal", str(view.run_id))
    assert (told["total_tokens"], told["child_runs"][0]["tokens"]) == (4 * call, 3 * call)
    assert f"4 model calls · {4 * call} tokens" in await shown(watched, capsys, "runs", "watch", str(view.run_id))


async def test_b10_a_member_is_shown_what_is_attached_to_its_teams_task_and_the_files_that_are_mounted(
    watched: Watched, tmp_path: Path
) -> None:
    """Row B10: what a task brings goes to every run below it, as what others made."""
    (tmp_path / "notes.md").write_text("Boats are white.", "utf-8")
    rows = {"name": "rows", "media_type": "text/csv", "data": base64.b64encode(b"boat,7\n").decode()}
    said = [use("delegate_to_ann", task="Count."), answers(n=7), answers(n=7)]
    watched.google.play(*(GEMINI.says(json.dumps(one)) for one in said))
    async with Client(watched.platform.client_url) as client:
        team = Swarm("readers", [Agent("lead"), Agent("ann", description="Counts.")], mode="team")
        await client.networks.publish(team)
        mount = HostMount(tmp_path, "given", roots=[tmp_path])
        wanted = {"attachments": [rows], "mounts": [mount], "quoted_inputs": {"mail": "Hello from Kim."}}
        view = await client.run("readers", "Count.", model="gemini:gemini-2.5-flash", timeout=60, **wanted)
        (child,) = (await client.tree(view.run_id)).children
        files = await client.workspaces.list(child.run_id)
        with pytest.raises(RefusedError) as refused:
            await client.submit("readers", "Count.", model="agent:reader", attachments=[rows])
    assert (view.status, child.agent_key, len(watched.google.seen)) == ("completed", "ann", 3), view.final
    asked = json.dumps(watched.google.seen[1].body)
    assert "### rows" in asked and "boat,7" in asked and "Hello from Kim." in asked
    assert [one.path for one in files.files] == ["given/notes.md"]
    assert refused.value.code == "attachment_refused" and "agent:reader takes no attachments" in str(refused.value)


async def test_b4_the_conversation_of_a_run_is_whole_and_in_order(watched: Watched) -> None:
    """Row B4: [system, …history, user]; no dangling calls; history contains the current turn; usage merged."""
    watched.server.play(*says(SCRIPT[0], answers(message="done")))
    async with Client(watched.platform.client_url) as client:
        view = await client.run(NETWORK["name"], "Mark it.", model="local:qwen3", timeout=180)
        talk = await client.messages(view.run_id)
    first, second = (LOCAL.sent_turns(one) for one in watched.server.seen)
    assert [role for role, _ in second] == ["system", "user", "assistant", "user"]
    assert second[:2] == first and json.loads(second[2][1])["action"] == "USE_TOOL"
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool", "assistant"]
    assert [message.content for message in talk.messages[::3]] == ["Mark it.", "done"]
    assert (talk.dangling, talk.waiting) == ((), ())
    assert talk.usage == view.usage
    assert talk.usage.model_calls == 2
    assert talk.usage.input_tokens > 1


async def test_b3_every_model_call_of_a_run_is_a_node_with_its_times_and_usage(watched: Watched) -> None:
    """Row B3: INIT → RUNNING → SUCCESS / FAILED; created / started / ended / duration; usage per node and summed."""
    watched.server.play(*says(SCRIPT[0]), LOCAL.fails(400, "Invalid value"))
    async with Client(watched.platform.client_url) as client:
        view = await client.run(NETWORK["name"], "Mark it.", model="local:qwen3", timeout=180)
        found = await client.nodes(view.run_id)
    assert (found.status, found.error, found.iterations) == ("failed", "model_refused_request", 2)
    assert [node.status for node in found.nodes] == ["success", "failed"]
    assert found.nodes[1].error.startswith("model_refused_request: the local server answered 400")
    for node in found.nodes:
        assert node.started_at is not None and node.ended_at is not None and node.duration_ms is not None
        assert node.created_at <= node.started_at <= node.ended_at
    assert view.usage is not None
    assert found.usage.input_tokens == sum(node.usage.input_tokens for node in found.nodes) == view.usage.input_tokens
    assert found.nodes[0].tool_signature and not found.nodes[1].tool_signature


async def test_b5_arguments_are_decoded_and_an_answer_comes_back_as_a_model(watched: Watched) -> None:
    """Row B5: empty → {}, bad JSON → a tool error the model sees; output validated against a schema, with repair."""

    def marks(params: Any) -> dict[str, Any]:
        return {**SCRIPT[0], "action_details": {"tool_name": "mark.pure", "tool_params": params}}

    script = [marks('{"n": '), marks(""), marks('{"n": 1}'), answers(verdict="ship"), answers(verdict="ship", score=7)]
    async with Client(watched.platform.client_url) as client:
        run = await client.run(NETWORK["name"], "Review.", script=script, output_type=Verdict, timeout=180)
        assert run.output == Verdict(verdict="ship", score=7)
        talk = await client.messages(run.run_id)
    said = [message.content for message in talk.messages if message.role == "platform"]
    assert "mark.pure: the arguments can't be read: they are not JSON" in said[0]
    assert "mark.pure: required parameter 'n': missing" in said[1]  # empty arguments are {}
    assert "'score' is a required property" in said[2]
    assert [call.arguments for message in talk.messages for call in message.tool_calls] == [{"n": 1}]


async def test_b13_a_model_call_is_tried_three_times_and_the_causes_are_chained(watched: Watched) -> None:
    """Row B13: 3 attempts in total, waits 1 s then 2 s (held on a virtual clock, for every provider, in
    test_decider_providers.py); context-length at once; cause chained."""
    async with Client(watched.platform.client_url) as client:
        watched.server.play(LOCAL.fails(*LOCAL.too_long))
        view = await client.run(NETWORK["name"], "Too much.", model="local:qwen3", timeout=180)
        assert (view.reason, len(watched.server.seen)) == ("context_too_long", 1)
        watched.server.play(LOCAL.fails(500, "first"), LOCAL.fails(429, "second"), LOCAL.fails(503, "third"))
        view = await client.run(NETWORK["name"], "Try.", model="local:qwen3", timeout=180)
    assert (view.status, view.reason, len(watched.server.seen)) == ("failed", "model_unavailable", 3)
    assert view.usage is not None and view.usage.model_calls == 3
    assert view.final is not None
    assert "503: third (attempt 3; before: " in view.final["message"]
    assert "500: first; the local server answered 429: second" in view.final["message"]
