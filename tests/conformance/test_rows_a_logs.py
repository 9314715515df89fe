"""Features A9-A12 and the pure part of A15, row by row: the logs, the context, the guards, the dry invoke."""

from dataclasses import replace

import pytest
from tests.support.engine.machine import Machine, respond, route, snapshot, use, use_all

from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import DEFAULT_CONTEXT_LIMIT, NetworkSpec
from towpath_contracts.text import truncate
from towpath_decider.core.prompt import render
from towpath_engine.requests.network_context import build_context


def test_a9_execution_log_has_exact_shapes_and_truncations() -> None:
    machine = Machine(user_message="m" * 81)
    machine.decide({**use("echo", text="t" * 200), "action_reasoning": "r" * 121})
    machine.finish(result="o" * 101, duration_ms=42)
    agent_step, tool_step = machine.log.execution_log
    assert agent_step == {
        "type": "agent",
        "step": 1,
        "epoch": 0,
        "agent_key": "triage",
        "input_preview": "m" * 79 + "…",
        "decision": {
            "action": "USE_TOOL",
            "action_reasoning": "r" * 119 + "…",
            "action_details": '{"tool_name":"echo","tool_params":{"text":"'.ljust(119, "t") + "…",
        },
    }
    assert tool_step == {
        "type": "tool",
        "step": 1,
        "epoch": 0,
        "agent_key": "triage",
        "tool_key": "echo",
        "execution_id": str(machine.events(ev.ToolCallFinished)[0].execution_id),
        "request_preview": '{"text":"'.ljust(49, "t") + "…",
        "response_preview": "o" * 99 + "…",
        "status": "ok",
        "duration_ms": 42,
    }
    lengths = [len(agent_step["input_preview"]), len(tool_step["request_preview"]), len(tool_step["response_preview"])]
    assert lengths == [80, 50, 100]
    assert {len(agent_step["decision"][key]) for key in ("action_reasoning", "action_details")} == {120}


def test_a9_an_echo_leaves_an_agent_a_tool_and_an_agent_entry() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hi"))
    machine.finish(result={"echo": "hi"})
    assert machine.context.outputs[0].text == '{"echo":"hi"}', "in full in the second prompt"
    machine.decide(respond("done"))
    assert [entry["type"] for entry in machine.log.execution_log] == ["agent", "tool", "agent"]
    assert len(machine.log.tool_log) == 1 and len(machine.events(ev.DecisionRequested)) == 2
    assert [i["kind"] for i in machine.log.instructions] == ["call_tools", "finish"]
    assert machine.log.execution_log[2]["input_preview"] == 'echo: {"echo":"hi"}'


@pytest.mark.parametrize("most", [50, 80, 100, 120])
def test_a9_a_text_that_fits_is_kept_whole(most: int) -> None:
    assert truncate("x" * most, most) == "x" * most
    assert truncate("x" * (most + 1), most) == "x" * (most - 1) + "…"
    assert truncate("", most) == ""


def test_a9_failures_and_denials_are_errors() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {})))
    machine.fail(0, message="no")
    machine.deny(1)
    entries = machine.log.execution_log
    assert [(e["type"], e.get("status")) for e in entries] == [("agent", None), ("tool", "error"), ("tool", "error")]
    assert "no" in entries[1]["response_preview"] and "not yours" in entries[2]["response_preview"]


def test_a10_full_payloads_live_in_the_tool_log_alone() -> None:
    machine = Machine()
    big = {"text": "o" * 5_000}
    machine.decide(use("echo", text="i" * 5_000))
    machine.finish(result=big, duration_ms=7)
    (key,) = machine.log.tool_refs
    assert machine.log.tool_log == {
        key: {
            "agent_key": "triage",
            "tool_key": "echo",
            "merged_params": {"text": "i" * 5_000},
            "result": big,
            "status": "succeeded",
            "duration_ms": 7,
            "timestamp": machine.now.isoformat(),
        }
    }
    assert "o" * 101 not in str(machine.log.execution_log) and "i" * 121 not in str(machine.log.execution_log)


def outputs(machine: Machine) -> list[str]:
    return [output.text for output in machine.context.outputs]


def test_a11_only_outputs_of_the_current_epoch_are_shown_newest_first() -> None:
    machine = Machine()
    for text in ("first", "second"):
        machine.decide(use("echo", text=text))
        machine.finish(result=text)
    assert outputs(machine) == ["second", "first"]
    machine.decide(route("expert"))
    assert outputs(machine) == []
    machine.decide(use("echo", text="third"))
    machine.finish(result="third")
    machine.decide(route("triage"))
    assert outputs(machine) == [], "the agent's own earlier epoch stays hidden"
    assert machine.context.older_count == 0


def test_a11_older_outputs_become_previews_and_a_count() -> None:
    assert DEFAULT_CONTEXT_LIMIT == 32_768
    machine = Machine(max_steps=40)
    for number in range(25):
        machine.decide(use("echo", text=str(number)))
        machine.finish(result=f"{number:02}" + "x" * 16_382)
    context = machine.context
    assert [text[:2] for text in outputs(machine)] == ["24", "23"], "two fill the 32 KiB exactly"
    assert context.older_count == 23
    assert [older.preview[:2] for older in context.older_outputs][:3] == ["22", "21", "20"]
    assert len(context.older_outputs) == 20
    assert {len(older.preview) for older in context.older_outputs} == {100}
    assert context.older_outputs[0].execution_id != context.older_outputs[1].execution_id


def test_a11_the_limit_counts_bytes_not_characters() -> None:
    machine = Machine(context_limit=100)
    machine.decide(use("echo", text="x"))
    machine.finish(result="é" * 50)
    assert len(outputs(machine)) == 1
    machine.decide(use("lookup", text="x"))
    machine.finish(result="é" * 51)
    assert (outputs(machine), machine.context.older_count) == ([], 2)
    machine.decide(route("expert"))
    assert (machine.context.older_outputs, machine.context.older_count) == ((), 0), "older ones are of the epoch too"


def test_a11_the_summary_is_the_last_ten_entries_of_the_log() -> None:
    machine = Machine()
    for number in range(7):
        machine.decide(use("echo", text=str(number)))
        machine.finish(result=number)
    assert len(machine.log.execution_log) == 14
    assert list(machine.context.log_summary) == machine.log.execution_log[-10:]


def always_use_a_tool(machine: Machine) -> None:
    for number in range(machine.state.created.max_steps):
        machine.decide(use("echo", text=str(number)))
        machine.finish(result=f"out {number}")


def test_a12_the_tenth_step_is_the_last() -> None:
    assert NetworkSpec(name="desk", agents=()).max_steps == 10
    machine = Machine()
    always_use_a_tool(machine)
    ended = machine.finished
    assert (ended.status, ended.reason, ended.steps) == ("failed", "max_steps_exceeded", 10)
    assert ended.final["error"] == "max_steps_exceeded" and ended.final["status"] == "error"
    assert ended.last_output == "out 9"
    assert len(machine.events(ev.DecisionReceived)) == 10
    assert len(machine.log.execution_log) == 20, "the transcript is complete"


def test_a12_tool_errors_have_a_budget() -> None:
    assert NetworkSpec(name="desk", agents=()).max_tool_errors == 8
    machine = Machine(max_tool_errors=2)
    machine.decide(use("echo", text="1"))
    machine.finish(result="kept")
    for number in range(2):
        assert not machine.state.is_final
        machine.decide(use("echo", text=f"again {number}"))
        machine.fail(message=f"broken in way {'ab'[number]}")
    ended = machine.finished
    assert (ended.status, ended.reason) == ("failed", "max_tool_errors_exceeded")
    assert ended.final["error"] == "max_tool_errors_exceeded" and ended.last_output == "kept"
    assert len(machine.log.execution_log) == 6


def test_a12_the_last_step_is_taken_by_the_agent_that_must_answer() -> None:
    machine = Machine(snapshot(force_respond=True, force_respond_agent="expert", max_steps=3))
    for number in range(2):
        assert machine.state.agent_key == "triage" and not machine.context.notes
        machine.decide(use("echo", text=str(number)))
        machine.finish()
    (forced,) = machine.events(ev.AgentTransferred)
    assert (forced.target, forced.forced, machine.state.step, machine.state.epoch) == ("expert", True, 3, 1)
    assert "last step" in machine.context.notes[0] and machine.context.steps_left == 1
    assert machine.log.execution_log[-1]["type"] == "system"
    machine.decide(respond("forced answer"))
    assert machine.finished.final == {"message": "forced answer"}


def test_a12_forcing_without_a_name_finds_an_agent_that_may_answer() -> None:
    machine = Machine(snapshot(force_respond=True, max_steps=2))
    machine.decide(route("clerk"))
    assert machine.state.agent_key == "triage", "the default agent, since the clerk may not respond"
    named = Machine(snapshot(force_respond=True, force_respond_agent="expert", max_steps=2))
    named.decide(route("clerk", "the order is 7"))
    assert (named.state.agent_key, named.context.handoff) == ("expert", "the order is 7"), "what was handed over stays"
    there = Machine(snapshot(force_respond=True, max_steps=4))
    for number in range(3):
        there.decide(use("echo", text=str(number)))
        there.fail()
    assert there.events(ev.AgentTransferred) == [], "the current agent may respond, so it stays"
    assert ["failed in the same way" in note for note in there.context.notes] == [True, False]
    alone = Machine(snapshot(force_respond=True, max_steps=1))
    assert alone.events(ev.NoteAdded) == [], "a run of one step is not forced"


def test_a15_one_instruction_runs_alone() -> None:
    machine = Machine(single_instruction=True)
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.fail(1, code="tool_timeout", message="too slow")
    machine.finish(0, result={"a": 1})
    ended = machine.finished
    assert (ended.status, ended.reason, ended.steps) == ("completed", "instruction_done", 1)
    first, second = ended.final["results"]
    assert (first["tool"], first["status"], first["result"]) == ("echo", "succeeded", {"a": 1})
    assert (second["tool"], second["status"], second["result"]["code"]) == ("lookup", "failed", "tool_timeout")
    routed = Machine(single_instruction=True)
    routed.decide(route("expert"))
    assert routed.finished.final == {"transferred_to": "expert"}
    refused = Machine(single_instruction=True)
    refused.decide(use("ghost"))
    assert (refused.finished.status, refused.finished.reason) == ("failed", "tool_not_allowed")
    assert "'ghost'" in refused.finished.final["message"]


def test_a15_the_prompt_that_an_agent_would_get_can_be_shown() -> None:
    """Row A15: what is shown is what is sent, to the last line (over HTTP: tests/e2e/test_gateway_platform.py)."""
    waiting = Machine(start=False)
    shown = render(build_context(replace(waiting.state, step=1))).text
    (request,) = Machine().requests
    assert isinstance(request, DecisionRequest)
    assert shown == render(request.context).text
    assert shown.startswith("You are triage.") and shown.endswith("Steps left, this one included: 10")
