"""Rows on a running platform that are about models: providers, their limits, what they are sent and what it costs."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS
from tests.support.decider.recorded_errors import MINUTE, exhausted, key_fault, quota
from tests.support.platform.goal_platform import use
from tests.support.platform.marked_runs import NETWORK
from tests.support.platform.watched_platform import LOCAL, Watched, watched_platform
from tests.support.platform.watched_runs import (
    SCRIPT,
    Verdict,
    answers,
    printed,
    says,
    shown,
    stops,
)

from towpath import Agent, Client, HostMount, RefusedError, Swarm

pytestmark = pytest.mark.asyncio(loop_scope="module")

GEMINI = DIALECTS["gemini"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched() -> AsyncIterator[Watched]:
    async with watched_platform() as found:
        yield found


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


@pytest.mark.prints("runs goal")
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
    assert "'score' is missing" in said[2]
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
