"""Features A1-A8, row by row, with the values that features.md names: publishing, and what a decision may do."""

from typing import Any

import pytest
from tests.support.engine.machine import RUN, Machine, agent, respond, route, snapshot, tool, types, use, use_all

from towpath_contracts.canonical import digest
from towpath_contracts.decisions.decision import decision_adapter, decision_schema
from towpath_contracts.decisions.request import DecisionRequest, FullToolOutput
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.near_names import SUGGESTED
from towpath_contracts.problems.registry import REGISTRY
from towpath_contracts.tools.calls import ToolRequest
from towpath_decider.core.prompt import render
from towpath_engine.publish.networks import check, compile_prompt, compile_snapshot, snapshot_body
from towpath_engine.requests.network_context import agent_parameters, build_context
from towpath_engine.rules.decisions import merge_arguments

ECHO, PAY = tool("echo"), tool("pay", required=("amount", "account"), system=("account", "token"))
TOOLS = {"echo": ECHO, "pay": PAY}


def network(*agents: dict[str, Any], **more: Any) -> NetworkSpec:
    return NetworkSpec.model_validate({"name": "desk", "agents": list(agents), **more})


def codes(spec: NetworkSpec) -> list[str]:
    return [problem.code for problem in check(spec, TOOLS)]


LEAD = {"key": "lead", "is_default": True, "allow_respond": True}


def test_a1_exactly_one_default_agent_and_the_snapshot_names_it() -> None:
    spec = network({"key": "other", "allow_respond": True}, {**LEAD, "allowed_routes": ["other"]})
    assert codes(spec) == []
    assert compile_snapshot(spec, TOOLS).default_agent_key == "lead"
    assert network({"key": "a"}).agents[0].is_default is False
    assert "default_agent_missing" in codes(network({"key": "a", "allow_respond": True}))
    assert "default_agent_ambiguous" in codes(network(LEAD, {**LEAD, "key": "second"}))


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ([{"key": "a", "allow_respond": True}], ["default_agent_missing"]),
        ([LEAD, {**LEAD, "key": "b"}], ["default_agent_ambiguous"]),
        ([{"key": "a", "is_default": True}], ["respond_agent_missing"]),
        ([{**LEAD, "allowed_routes": ["ghost"]}], ["route_unknown"]),
        ([{"key": "a", "is_default": True}, {"key": "b", "allow_respond": True}], ["respond_unreachable"]),
    ],
)
def test_a2_publish_refuses_each_broken_graph_with_its_own_code(agents: list[Any], expected: list[str]) -> None:
    assert codes(network(*agents)) == expected
    assert REGISTRY[expected[0]].status == 422


def test_a2_all_problems_are_reported_at_once() -> None:
    broken = network(
        {"key": "a", "allowed_routes": ["ghost"], "equipped_tools": ["missing"]},
        {"key": "b", "allowed_routes": ["b"]},
        {"key": "A", "model": "nobody"},
    )
    assert sorted(codes(broken)) == [
        "agent_duplicate",
        "default_agent_missing",
        "model_unknown",
        "respond_agent_missing",
        "route_to_self",
        "route_unknown",
        "tool_unknown",
    ]


def test_a2_a_cycle_with_an_exit_is_fine() -> None:
    around: list[dict[str, Any]] = [
        {"key": "a", "is_default": True, "allowed_routes": ["b"]},
        {"key": "b", "allowed_routes": ["a", "c"]},
        {"key": "c", "allowed_routes": ["a"], "allow_respond": True},
    ]
    assert codes(network(*around)) == []
    assert codes(network(around[0], {"key": "b", "allowed_routes": ["a"]}, around[2])) == ["respond_unreachable"]


def test_a3_a_snapshot_is_its_content() -> None:
    spec = network({**LEAD, "equipped_tools": ["echo"]})
    one, two = (digest(snapshot_body(compile_snapshot(spec, TOOLS))) for _ in range(2))
    assert one == two and one.startswith("sha256:")
    other = network({**LEAD, "equipped_tools": ["echo"], "prompt_template": "New."})
    assert digest(snapshot_body(compile_snapshot(other, TOOLS))) != one
    changed = {"echo": tool("echo", description="another")}
    assert digest(snapshot_body(compile_snapshot(spec, changed))) != one, "the tool's schema is pinned"


def test_a4_the_prompt_is_made_of_base_constraints_and_context() -> None:
    compiled = compile_prompt("I am {agent_key}: {tools} {routes} {tool_history} {other} {{ agent_key }} {{tools}}")
    assert compiled == (
        "I am {{ agent_key }}: {{ tools }} {{ routes }} {{ tool_history }} {other} {{ agent_key }} {{tools}}"
    )
    machine = Machine()
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest)
    context = request.context
    assert (context.base_prompt, context.agent_key) == ("You are {{ agent_key }}.", "triage")
    assert [offered.name for offered in context.tools] == ["echo", "lookup", "poll", "pay"]
    assert [offered.agent_key for offered in context.routes] == ["expert", "clerk"]
    assert (context.user_message, context.allow_respond, context.steps_left) == ("What is new?", True, 10)
    prompt = render(context).text
    parts = ("You are triage.", '"tool_name"', "# Context", "What is new?", "Steps left, this one included: 10")
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places), "base prompt, constraints, context"
    bound = compile_prompt("{agent_key}/{tools}/{routes}/{tool_history}.")
    output = FullToolOutput(execution_id=RUN, tool="echo", step=1, status="succeeded", text='"news"')
    filled = render(context.model_copy(update={"base_prompt": bound, "outputs": (output,)})).text
    key, tools, routes, history = filled.partition("\n\n# ")[0].split("/", 3)
    assert key == "triage" and "lookup" in tools and "expert" in routes and '"news"' in history


def test_a5_a_decision_is_read_strictly() -> None:
    for decision in (use("echo", text="x"), route("expert"), respond("x")):
        assert decision_adapter.validate_python(decision).action == decision["action"]
    schema = decision_schema()
    assert set(schema["discriminator"]["mapping"]) == {"USE_TOOL", "ROUTE_TO_AGENT", "RESPOND"}
    everything_broken: tuple[dict[str, Any], ...] = (
        {**respond("x"), "action": "DANCE"},
        {**respond("x"), "mood": "good"},
        {"action": "RESPOND", "action_reasoning": "r", "action_details": {"payload": "x", "extra": 1}},
        {"action": "RESPOND", "action_reasoning": "r"},
        {"action_details": {}},
        {},
    )
    for broken in everything_broken:
        machine = Machine()
        assert types(machine.decide(broken)) == ["decision_received", "decision_refused", "decision_requested"]
        assert machine.events(ev.DecisionRefused)[0].code == "decision_invalid"


def test_a6_a_tool_keeps_agent_and_epoch() -> None:
    machine = Machine()
    machine.decide(use("echo", text="x"))
    machine.finish()
    assert (machine.state.agent_key, machine.state.epoch, machine.state.step) == ("triage", 0, 2)


def test_a6_a_route_switches_and_hands_the_context_over_once() -> None:
    machine = Machine()
    machine.decide(route("expert", {"order": 7}))
    assert (machine.state.agent_key, machine.state.epoch) == ("expert", 1)
    assert (machine.context.handoff, machine.context.handoff_from) == ('{"order":7}', "triage")
    machine.decide(use("echo", text="x"))
    machine.finish()
    assert (machine.context.handoff, machine.context.handoff_from) == (None, None)


def test_a6_a_route_to_itself_keeps_the_epoch() -> None:
    looping = snapshot(agent("a", allowed_routes=("a",), allow_respond=True, equipped_tools=("echo",)))
    machine = Machine(looping)
    machine.decide(use("echo", text="x"))
    machine.finish(result="kept")
    machine.decide(route("a", "note to myself"))
    assert (machine.state.epoch, machine.context.handoff) == (0, "note to myself")
    assert machine.events(ev.AgentTransferred)[0].epoch == 0
    assert [output.text for output in machine.context.outputs] == ["kept"]


def test_a6_respond_ends_and_a_string_becomes_a_message() -> None:
    machine = Machine()
    machine.decide(respond("all well"))
    assert (machine.finished.status, machine.finished.final) == ("completed", {"message": "all well"})
    other = Machine()
    other.decide(respond({"a": [1, 2]}))
    assert other.finished.final == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("decision", "code", "words"),
    [
        (use("delete", text="x"), "tool_not_allowed", ["clerk", "'delete'. Allowed tools: pay"]),
        (
            use("echo", text="x"),
            "tool_not_allowed",
            ["'echo'; it may route to triage or expert, which have it. Allowed tools: pay"],
        ),
        (use("pya", text="x"), "tool_not_allowed", ["clerk may not use 'pya'; did you mean 'pay'? Allowed"]),
        (route("ghost"), "route_not_allowed", ["'ghost'", "Allowed routes: triage, expert"]),
        (route("clerk"), "route_not_allowed", ["'clerk'"]),
        (respond("x"), "respond_not_allowed", ["clerk may not respond", "pay", "triage, expert"]),
        (use("pay", text="x"), "arguments_invalid", ["pay: required parameter 'amount': missing"]),
        (use("pay", amount="5", account="mine"), "arguments_invalid", ["parameter 'account' is set by the system"]),
        (use_all(("pay", {"amount": "5"}), ("echo", {})), "tool_not_allowed", ["'echo'"]),
        ({"action": "DANCE"}, "decision_invalid", ["DANCE"]),
        (use_all(), "decision_invalid", ["tool_name or calls"]),
    ],
)
def test_a7_a_refusal_is_fed_back_and_changes_nothing(decision: Any, code: str, words: list[str]) -> None:
    machine = Machine(system_params={"account": "acme", "token": "t"})
    machine.decide(route("clerk"))
    before = machine.state
    assert types(machine.decide(decision)) == ["decision_received", "decision_refused", "decision_requested"]
    (refused,) = machine.events(ev.DecisionRefused)
    assert refused.code == code and all(word in refused.feedback for word in words), refused.feedback
    after = machine.state
    assert (after.agent_key, after.epoch, after.status, after.fence) == ("clerk", 1, "running", 0)
    assert (after.calls, after.tool_errors, after.step) == ((), 0, before.step + 1)
    assert machine.context.feedback == (refused.feedback,)
    machine.decide(use("pay", amount="5"))
    assert machine.state.calls[0].call.tool == "pay", "the run goes on"


def test_a7_every_problem_of_a_decision_is_named_at_once() -> None:
    strict = tool("strict", required=("a", "b"), system=("key",))
    spec = strict.model_copy(update={"parameters": {**strict.parameters, "additionalProperties": False}})
    machine = Machine(snapshot(agent("a", allow_respond=True, equipped_tools=("strict",)), tools=(spec,)))
    machine.decide(use_all(("strict", {"key": "x", "odd": 1}), ("unheard", {})))
    feedback = machine.context.feedback[0]
    for word in ("'key' is set by the system", "no parameter 'odd'", "'a': missing", "'b': missing", "'unheard'"):
        assert word in feedback
    assert "key," not in feedback, "the list of parameters holds only the model's own"


def test_a7_a_denial_by_tool_access_is_a_result_and_ends_nothing() -> None:
    machine = Machine()
    machine.decide(use("echo", text="x"))
    assert types(machine.deny()) == ["tool_call_denied", "decision_requested"]
    (output,) = machine.context.outputs
    assert output.status == "denied" and "use echo" in output.text and "permission_denied" in output.text
    assert (machine.state.agent_key, machine.state.epoch, machine.state.status) == ("triage", 0, "running")


def test_a8_system_parameters_are_filled_in_and_never_shown() -> None:
    machine = Machine(system_params={"account": "acme-secret", "token": "t-secret", "unused": 1})
    offered = next(t for t in machine.context.tools if t.name == "pay")
    assert sorted(offered.parameters["properties"]) == ["amount", "text"]
    assert offered.parameters["required"] == ["amount"]
    assert agent_parameters(ECHO) == ECHO.parameters
    machine.decide(use("pay", amount="5"))
    (request,) = machine.requests
    assert isinstance(request, ToolRequest)
    assert request.args == {"amount": "5", "account": "acme-secret", "token": "t-secret"}
    machine.finish(result="paid")
    assert "secret" not in build_context(machine.state).model_dump_json()
    assert "secret" not in str(machine.log.execution_log) and "secret" not in str(machine.log.instructions)
    assert machine.log.tool_log[machine.log.tool_refs[0]]["merged_params"]["account"] == "acme-secret"


def test_a8_a_parameter_that_the_system_lacks_is_named() -> None:
    machine = Machine()
    machine.decide(use("pay", amount="5"))
    assert "required parameter 'account': the system did not provide" in machine.context.feedback[0]
    assert "'token'" not in machine.context.feedback[0], "it is not required"
    merged, problems = merge_arguments(PAY, {"amount": "5", "account": "mine"}, {})
    assert merged == {"amount": "5"}, "what the model says about it is dropped"
    assert len(problems) == 2 and "set by the system" in problems[0] and "did not provide" in problems[1]


def test_a8_a_misspelt_parameter_is_not_told_as_a_missing_one_too() -> None:
    strict = PAY.model_copy(update={"parameters": {**PAY.parameters, "additionalProperties": False}})
    _merged, (problem,) = merge_arguments(strict, {"amuont": "5"}, {"account": "acme"})
    assert problem == "pay: there is no parameter 'amuont'; did you mean 'amount'? It takes: text, amount."
    _merged, problems = merge_arguments(strict, {"colour": "red"}, {"account": "acme"})
    assert [one.partition(": ")[2] for one in problems] == [
        "there is no parameter 'colour'; it takes: text, amount.",
        "required parameter 'amount': missing.",
    ]


def test_a8_each_of_many_misspelt_parameters_is_one_problem() -> None:
    names = [f"{letter * 3}_value" for letter in "abcdefghijklmnop"]
    schema = {"properties": {name: {} for name in names}, "required": names, "additionalProperties": False}
    strict = PAY.model_copy(update={"parameters": schema, "system_params": ()})
    _merged, problems = merge_arguments(strict, {name.replace("value", "vlaue"): 1 for name in names}, {})
    assert len(problems) == len(names)
    assert all(f"did you mean {name!r}?" in one for name, one in zip(names, problems, strict=True))


def test_a8_of_many_unknown_parameters_only_the_first_are_compared_with_those_that_are_missing() -> None:
    strict = PAY.model_copy(update={"parameters": {**PAY.parameters, "additionalProperties": False}})
    _merged, problems = merge_arguments(strict, {f"amuont{n}": "5" for n in range(50)}, {"account": "acme"})
    assert len(problems) == 50 and all("there is no parameter 'amuont" in one for one in problems)
    assert ["did you mean 'amount'?" in one for one in problems] == [True] * SUGGESTED + [False] * (50 - SUGGESTED)
