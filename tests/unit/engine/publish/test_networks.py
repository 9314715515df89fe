"""Publishing: the checks that rows A1-A3 do not name, and the compiled snapshot."""

from typing import Any

import pytest
from tests.support.engine.machine import tool

from towpath_contracts.networks.spec import NetworkSnapshot, NetworkSpec
from towpath_contracts.problems.registry import REGISTRY
from towpath_engine.publish.networks import REGISTER, check, compile_prompt, compile_snapshot, snapshot_body

TOOLS = {"echo": tool("echo"), "pay": tool("pay")}
LEAD: dict[str, Any] = {"key": "lead", "is_default": True, "allow_respond": True, "equipped_tools": ["echo"]}


def spec(*agents: dict[str, Any], **more: Any) -> NetworkSpec:
    return NetworkSpec.model_validate({"name": "desk", "agents": list(agents), **more})


def problems(network: NetworkSpec) -> list[tuple[str, str]]:
    return [(problem.code, problem.pointer) for problem in check(network, TOOLS)]


def test_a_network_without_agents_lacks_both() -> None:
    assert [code for code, _ in problems(spec())] == ["default_agent_missing", "respond_agent_missing"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"allowed_routes": ["lead"]}, ("route_to_self", "/agents/0/allowed_routes")),
        ({"allowed_routes": ["nobody"]}, ("route_unknown", "/agents/0/allowed_routes")),
        ({"equipped_tools": ["hammer"]}, ("tool_unknown", "/agents/0/equipped_tools")),
        ({"model": "gpt"}, ("model_unknown", "/agents/0/model")),
        ({"model": "openai:"}, ("model_unknown", "/agents/0/model")),
        ({"model": "abacus:x"}, ("model_unknown", "/agents/0/model")),
    ],
)
def test_each_problem_says_where_it_is(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert problems(spec({**LEAD, **changes})) == [expected]
    assert REGISTRY[expected[0]].remedy


def test_a_judge_that_no_provider_has_is_refused_with_its_network() -> None:
    assert problems(spec(LEAD, goal={"judge_model": "abacus:x"})) == [("model_unknown", "/goal/judge_model")]
    assert problems(spec(LEAD, goal={"judge_model": "agent:mine"})) == []


def test_a_tool_of_the_platform_that_is_not_there_is_said_to_be_switched_off() -> None:
    (off,) = check(spec({**LEAD, "equipped_tools": ["agent_orchestrate"]}), TOOLS)
    assert off.code == "tool_unknown" and off.detail.endswith(
        "agent_orchestrate, which is switched off on this platform"
    )
    (unknown,) = check(spec({**LEAD, "equipped_tools": ["hammer"]}), TOOLS)
    assert unknown.detail.endswith(
        "hammer, which nobody registered: start the worker that has it, or take one of towpath tools list"
    )


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("booking.change_dates", f": {REGISTER}"),
        ("booking.fnd", "; did you mean 'booking.find'?"),
        ("bookings.find", "; did you mean 'booking.find'?"),
        ("hotel.booking.find", "; did you mean 'booking.find'?"),
    ],
)
def test_a_tool_of_the_same_toolset_is_not_near_for_that(name: str, end: str) -> None:
    (unknown,) = check(spec({**LEAD, "equipped_tools": [name]}), {"booking.find": tool("booking.find")})
    assert unknown.detail.endswith(f"which nobody registered{end}")


def test_a_pattern_is_refused_with_the_names_to_write_in_its_place() -> None:
    known = {name: tool(name) for name in ("orders.refund", "orders.find", "stock.find")}
    (refused,) = check(spec({**LEAD, "equipped_tools": ["orders.*"]}), known)
    assert refused.code == "tool_unknown"
    assert refused.detail.endswith("orders.*: patterns are not taken; write 'orders.find', 'orders.refund'")
    (unknown,) = check(spec({**LEAD, "equipped_tools": ["mail.*"]}), known)
    assert unknown.detail.endswith("mail.*: patterns are not taken; write the name of each tool")


def test_another_way_to_register_is_said_before_a_near_name() -> None:
    (unknown,) = check(spec({**LEAD, "equipped_tools": ["ecko"]}), TOOLS, register="bring it")
    assert unknown.detail.endswith("which nobody registered: bring it; did you mean 'echo'?")


def test_a_tool_that_nobody_has_accepted_is_said_to_wait_with_how_it_is_accepted() -> None:
    (held,) = check(spec({**LEAD, "equipped_tools": ["ecko"]}), TOOLS, waiting={"ecko": 3})
    assert held.code == "tool_unknown"
    assert held.detail.endswith(
        "ecko, which waits until somebody accepts it: look at it, towpath tools proposals, and have it accepted: "
        "towpath tools accept ecko --version 3"
    )


def test_keys_are_compared_without_case() -> None:
    twice = spec(LEAD, {"key": "LEAD"})
    assert problems(twice) == [("agent_duplicate", "/agents/1/key")]


@pytest.mark.parametrize("forced", ["ghost", "mute"])
def test_an_answer_can_only_be_forced_from_an_agent_that_may_respond(forced: str) -> None:
    network = spec(LEAD, {"key": "mute"}, force_respond=True, force_respond_agent=forced)
    assert problems(network) == [("force_respond_invalid", "/force_respond_agent")]
    assert problems(spec(LEAD, force_respond=True)) == []


def test_the_default_agent_need_not_respond_itself() -> None:
    chain = [{"key": f"a{n}", "allowed_routes": [f"a{n + 1}"], "is_default": n == 0} for n in range(5)]
    assert problems(spec(*chain, {"key": "a5", "allow_respond": True})) == []


def test_a_route_that_leads_nowhere_does_not_reach() -> None:
    network = spec({"key": "a", "is_default": True, "allowed_routes": ["ghost"]}, {"key": "b", "allow_respond": True})
    assert [code for code, _ in problems(network)] == ["route_unknown", "respond_unreachable"]


def test_every_code_is_registered() -> None:
    worst = spec(
        {"key": "a", "equipped_tools": ["x"], "allowed_routes": ["a", "y"], "model": "z"},
        {"key": "A"},
        model="nothing",
        force_respond=True,
        force_respond_agent="b",
    )
    found = [code for code, _ in problems(worst)]
    assert len(found) == 9 and set(found) <= set(REGISTRY)


@pytest.mark.parametrize("name", ["tools", "routes", "agent_key", "tool_history"])
def test_placeholders_of_the_source_design_become_variables(name: str) -> None:
    assert compile_prompt(f"a {{{name}}} b") == f"a {{{{ {name} }}}} b"


@pytest.mark.parametrize(
    "kept", ["{{ tools }}", "{{tools}}", "{other}", '{"tools": 1}', "{ tools }", "{tools", "tools}", "", "{Tools}"]
)
def test_everything_else_in_a_prompt_is_kept(kept: str) -> None:
    assert compile_prompt(kept) == kept


def test_the_snapshot_holds_what_a_run_needs_and_no_more() -> None:
    network = spec(
        {**LEAD, "prompt_template": "Hi {agent_key}", "model": "gemini:x", "respond_guidance": "short"},
        {"key": "other", "respond_schema": {"type": "object"}},
        model="google:y",
        max_steps=7,
        context_limit=99,
    )
    compiled = compile_snapshot(network, TOOLS)
    assert (compiled.network, compiled.max_steps, compiled.context_limit) == ("desk", 7, 99)
    assert list(compiled.tools) == ["echo"], "tools that no agent has stay out"
    lead, other = compiled.agents["lead"], compiled.agents["other"]
    assert (lead.prompt, lead.model, lead.respond_guidance) == ("Hi {{ agent_key }}", "gemini:x", "short")
    assert (other.model, other.respond_schema, other.allow_respond) == ("google:y", {"type": "object"}, False)
    assert NetworkSnapshot.model_validate(snapshot_body(compiled)) == compiled


def test_answer_schemas_that_are_too_large_together_are_refused_unread() -> None:
    large = {"properties": {str(place): {} for place in range(1_200)}, "type": "objekt"}
    agents = [LEAD, *({"key": f"a{place}", "respond_schema": large} for place in range(3))]
    assert [code for code, _ in problems(spec(*agents))] == ["response_schema_invalid"] * 3
    assert problems(spec(*agents, {"key": "a3", "respond_schema": large})) == [("network_too_large", "/agents")]
