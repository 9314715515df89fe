"""A model's answers are recorded while a provider gives them, and said again without one, never by one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.decider.gemini_server import GeminiServer, gemini
from tests.support.decider.model_servers import KEY, OUTPUT_TOKENS, OpenAi

from towpath import Agent, Network, tool
from towpath.errors import RefusedError
from towpath.testing import RunResult, harness, live, replay

TIMEOUT = "60s"  # the provider's library is loaded with the first question
MODEL = "openai:gpt-5-mini"
POLICY = "kind: Policy\nrules:\n- {name: all, who: {agent: desk}, tool: orders.find, effect: allow}\n"
API = OpenAi()


@tool(name="orders.find", effect_class="pure")
def find(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order_id, "note": f"keep {KEY}"}


DESK = Network("desk", agents=[Agent("desk", prompt="Answer. {tools}", tools=[find], can_respond=True, default=True)])


def decision(action: str, **details: Any) -> str:
    return json.dumps({"action": action, "action_reasoning": "so", "action_details": details})


CALL = decision("USE_TOOL", tool_name="orders.find", tool_params={"order_id": "8812"})
ANSWER = decision("RESPOND", payload={"message": f"found with {KEY}"})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a server that speaks OpenAI's API, with its address and a key in the environment."""
    with gemini(API.says(CALL), API.says(ANSWER)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("TOWPATH_OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


async def run(model: Any, message: str = "Where is 8812?") -> RunResult:
    async with harness(DESK, policy=POLICY, tools=[find], model=model) as h:
        return await (await h.run(message)).result(TIMEOUT)


def forget_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("TOWPATH_OPENAI_BASE_URL")


async def test_a_model_of_a_provider_is_asked_by_its_name_alone(asked: GeminiServer) -> None:
    result = await run(MODEL)
    assert (result.status, [call.tool for call in result.tool_calls()]) == ("completed", ["orders.find"])
    assert {seen.header("authorization") for seen in asked.seen} == {f"Bearer {KEY}"}
    assert result.view.cost is not None
    assert result.view.cost.usd == pytest.approx(2 * API.usd)


async def test_what_was_recorded_is_said_again_without_a_key(
    asked: GeminiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "answers.jsonl"
    first = await run(live(MODEL, record=kept))
    count = len(asked.seen)
    forget_key(monkeypatch)
    again = await run(replay(kept, MODEL))  # ids of runs and calls are others
    assert first.view.run_id != again.view.run_id
    assert [call.args for call in again.tool_calls()] == [call.args for call in first.tool_calls()]
    assert (again.status, again.view.usage) == (first.status, first.view.usage)
    assert again.view.usage is not None
    assert again.view.usage.output_tokens == 2 * OUTPUT_TOKENS
    assert len(asked.seen) == count


async def test_a_log_in_a_prompt_has_other_ids_times_and_fences_each_time(
    asked: GeminiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = [0.0, 0.02]

    @tool(name="orders.find", effect_class="pure")
    async def find_later(order_id: str) -> str:
        """Look an order up."""
        await asyncio.sleep(delays.pop(0))
        return order_id

    prompt = "Answer. {tools} {tool_history}"
    desk = Network("desk", agents=[Agent("desk", prompt=prompt, tools=[find_later], can_respond=True, default=True)])

    async def logged(model: Any) -> str:
        async with harness(desk, policy=POLICY, tools=[find_later], model=model) as h:
            result = await (await h.run("Where is 8812?")).result(TIMEOUT)
        return f"{result.status} {result.view.message}"

    kept = tmp_path / "answers.jsonl"
    first = await logged(live(MODEL, record=kept))
    assert any("duration_ms" in json.dumps(seen.body) for seen in asked.seen)
    forget_key(monkeypatch)
    assert await logged(replay(kept, MODEL)) == first == "completed "


async def test_calls_that_a_model_made_natively_are_said_again(
    asked: GeminiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_NATIVE_TOOLS", '{"openai": true}')
    asked.play(API.calls_tools(("orders_find", '{"order_id": "8812"}')), API.says(ANSWER))
    kept = tmp_path / "answers.jsonl"
    await run(live(MODEL, record=kept))
    assert API.offered(asked.seen[0])
    forget_key(monkeypatch)
    monkeypatch.delenv("TOWPATH_NATIVE_TOOLS")
    result = await run(replay(kept, MODEL))
    assert [call.args for call in result.tool_calls()] == [{"order_id": "8812"}]


async def test_no_secret_is_written(asked: GeminiServer, tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    result = await run(live(MODEL, record=kept))
    assert KEY in result.text
    text = kept.read_text()
    assert KEY not in text
    assert "found with [redacted]" in text
    assert "Where is 8812?" not in text


async def test_a_question_that_was_not_recorded_is_named_and_nobody_is_asked(
    asked: GeminiServer, tmp_path: Path
) -> None:
    kept = tmp_path / "answers.jsonl"
    await run(live(MODEL, record=kept))
    count = len(asked.seen)
    result = await run(replay(kept, MODEL), "Where is 4711?")
    assert (result.status, result.reason) == ("failed", "recording_missing")
    assert f"{kept} has no answer of {MODEL} for agent desk (request sha256:" in result.view.message
    assert "Where is 4711?" in result.view.message
    other = await run(replay(kept, "gemini:gemini-2.5-flash"))
    assert other.reason == "recording_missing"
    assert len(asked.seen) == count


async def test_of_a_long_question_the_last_200_characters_are_shown(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    kept.write_text('{"kind": "Recording"}\n')
    result = await run(replay(kept, MODEL), "Where is 8812? " * 50)
    shown = result.view.message.partition("which was asked: …")[2]
    assert len(shown) == 200


async def test_the_same_question_gets_its_answers_in_their_order_and_the_last_one_from_then_on(
    asked: GeminiServer, tmp_path: Path
) -> None:
    said = [decision("RESPOND", payload={"message": text}) for text in ("one", "two")]
    asked.play(*map(API.says, said))
    model = live(MODEL, record=tmp_path / "answers.jsonl")
    assert [(await run(model)).text for _ in said] == ["one", "two"]
    again = replay(tmp_path / "answers.jsonl", MODEL)
    async with harness(DESK, policy=POLICY, tools=[find], model=again) as h:
        assert [(await (await h.run("Where is 8812?")).result(TIMEOUT)).text for _ in range(3)] == ["one", "two", "two"]


async def test_an_id_in_an_answer_becomes_that_of_the_run_that_hears_it(asked: GeminiServer, tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    await run(live(MODEL, record=kept))
    ids = [line["body"]["messages"] for line in (vars(seen) for seen in asked.seen[1:])]
    assert "execution_id" in json.dumps(ids)
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    lines[2]["text"] = decision("RESPOND", payload={"message": "{id 0}"})
    kept.write_text("\n".join(map(json.dumps, lines)))
    result = await run(replay(kept, MODEL))
    (called,) = [event for event in result.events if event.type == "tool_call_finished"]
    assert result.text == str(called.execution_id)


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"kind": "Recording"}\n{"asked": 1}', '{"kind": "Other"}'])
def test_a_file_that_is_no_recording_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(text)
    with pytest.raises(RefusedError, match="is no recording of a model's answers"):
        replay(path)


@pytest.mark.parametrize("text", ["kind: Evaluation\n", '{"kind": "Other"}\n', "[]\n", "\n"])
def test_what_is_no_recording_is_not_written_over(text: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(RefusedError, match="is no recording of a model's answers"):
        live(MODEL, record=path)
    assert path.read_text() == text
    with pytest.raises(RefusedError, match="it can't be written"):
        live(MODEL, record=tmp_path / "nowhere" / "answers.jsonl")
    with pytest.raises(RefusedError, match="is no recording"):
        live(MODEL, record=tmp_path)


async def test_a_recording_stays_until_there_is_another_answer(asked: GeminiServer, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    old = '{"kind": "Recording"}\n{"asked": "cut'
    path.write_text(old)
    model = live(MODEL, record=path)
    assert path.read_text() == old
    await run(model)
    assert [json.loads(line).get("kind") for line in path.read_text().splitlines()] == ["Recording", None, None]
