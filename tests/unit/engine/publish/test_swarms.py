"""Publishing swarms: what follows from a swarm, and everything that is wrong with one, at once."""

from typing import Any

import pytest
from tests.support.engine.machine import tool

from towpath_contracts.networks.spec import NetworkSnapshot, NetworkSpec
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.problems.registry import REGISTRY
from towpath_engine.publish.networks import check, compile_snapshot, snapshot_body

TOOLS = {"echo": tool("echo"), "delegate_to_b": tool("delegate_to_b")}
AGENTS = ("a", "b", "c", "d")


def spec(swarm: Any, *, agents: Any = AGENTS, **more: Any) -> NetworkSpec:
    keys = [one if isinstance(one, dict) else {"key": one} for one in agents]
    return NetworkSpec.model_validate({"name": "desk", "agents": keys, "swarm": swarm, **more})


def problems(network: NetworkSpec) -> list[tuple[str, str]]:
    return [(problem.code, problem.pointer) for problem in check(network, TOOLS)]


def compiled(network: NetworkSpec) -> CompiledSwarm:
    assert check(network, TOOLS) == []
    swarm = compile_snapshot(network, TOOLS).swarm
    assert swarm is not None
    return swarm


def deep(levels: int) -> dict[str, Any]:
    """A workflow in a workflow in …, the innermost of which has an agent of its own."""
    swarm: dict[str, Any] = {"mode": "workflow", "members": ["a"]}
    for level in range(levels):
        swarm = {"mode": "workflow", "members": [f"s{level}"], "swarms": {f"s{level}": swarm}}
    return swarm


def test_the_lead_is_the_default_and_every_member_may_respond_without_being_listed() -> None:
    network = spec({"mode": "workflow", "flow": "c >> (b | a)"})
    snapshot = compile_snapshot(network, TOOLS)
    assert problems(network) == []
    assert snapshot.default_agent_key == "c"
    assert [key for key, agent in snapshot.agents.items() if agent.allow_respond] == ["a", "b", "c"]
    assert snapshot.swarm is not None and snapshot.swarm.stages == (("c",), ("a", "b"))
    assert NetworkSnapshot.model_validate(snapshot_body(snapshot)) == snapshot


def test_without_members_and_flow_everybody_takes_part_in_the_order_of_the_list() -> None:
    assert compiled(spec({"mode": "workflow"})).stages == (("a",), ("b",), ("c",), ("d",))
    nested = {"mode": "workflow", "swarms": {"pair": {"mode": "team", "members": ["b", "c"]}}}
    swarm = compiled(spec(nested))
    assert swarm.members == ("a", "d", "pair")
    assert swarm.swarms["pair"].delegates == ("c",)


def test_a_team_has_a_lead_and_delegates() -> None:
    swarm = compiled(spec({"mode": "team", "members": ["b", "a", "d"], "max_parallel": 2}))
    assert (swarm.lead, swarm.delegates, swarm.max_parallel) == ("b", ("a", "d"), 2)
    assert compiled(spec({"mode": "team", "flow": "d >> (a | b)"})).lead == "d"


def test_a_handoff_knows_to_whom_each_agent_may_hand_over() -> None:
    agents = ({"key": "a", "allowed_routes": ["b", "help"]}, {"key": "b", "allowed_routes": ["a"]}, "c", "d")
    helping = {"help": {"mode": "team", "members": ["c", "d"]}}
    network = spec({"mode": "handoff", "members": ["a", "b", "help"], "swarms": helping}, agents=agents)
    swarm = compiled(network)
    assert swarm.handoffs == {"a": ("b", "help"), "b": ("a",)}
    assert compile_snapshot(network, TOOLS).agents["a"].allowed_routes == ("b",), "routes of agents lead to agents"


def test_steps_are_ten_for_each_agent_unless_somebody_says_so() -> None:
    assert compile_snapshot(spec({"mode": "workflow"}), TOOLS).max_steps == 40
    assert compile_snapshot(spec({"mode": "workflow", "agent_steps": 3}), TOOLS).max_steps == 12
    assert compile_snapshot(spec({"mode": "workflow"}, max_steps=7), TOOLS).max_steps == 7
    nested = {"mode": "workflow", "members": ["a", "n"], "swarms": {"n": {"mode": "team", "members": ["b", "c"]}}}
    assert compiled(spec(nested)).max_steps == 30


def test_a_handoff_has_steps_for_all_its_handoffs() -> None:
    assert compile_snapshot(spec({"mode": "handoff"}), TOOLS).max_steps == 110
    few = {"mode": "handoff", "max_handoffs": 1, "agent_steps": 5}
    assert compile_snapshot(spec(few), TOOLS).max_steps == 20, "and for each of its agents"
    assert compile_snapshot(spec({"mode": "handoff", "max_handoffs": 100, "agent_steps": 50}), TOOLS).max_steps == 1_000
    assert compile_snapshot(spec({"mode": "handoff"}, max_steps=7), TOOLS).max_steps == 7


def test_a_nested_handoff_has_steps_for_all_its_handoffs_and_so_has_what_is_around_it() -> None:
    pair = {"mode": "handoff", "members": ["b", "c"]}
    around = {"mode": "team", "members": ["d", "pair"], "swarms": {"pair": pair}}
    outer = {"mode": "workflow", "members": ["a", "crew"], "swarms": {"crew": around}}
    snapshot = compile_snapshot(spec(outer), TOOLS)
    assert snapshot.swarm is not None and snapshot.max_steps == snapshot.swarm.max_steps == 110
    crew = snapshot.swarm.swarms["crew"]
    assert (crew.max_steps, crew.swarms["pair"].max_steps, crew.agent_steps) == (110, 110, 10)
    assert compile_snapshot(spec(outer, max_steps=30), TOOLS).max_steps == 30, "the network says less"


def test_a_swarm_that_was_published_before_its_steps_were_written_keeps_them() -> None:
    flat = compiled(spec({"mode": "workflow"}))
    assert flat.steps is None and "steps" not in flat.model_dump()
    handoff = compiled(spec({"mode": "handoff"}))
    assert (handoff.steps, handoff.model_copy(update={"steps": None}).max_steps) == (110, 40)


def test_a_network_that_is_no_swarm_is_written_as_before() -> None:
    plain = NetworkSpec.model_validate({"name": "n", "agents": [{"key": "a", "is_default": True, "allow_respond": 1}]})
    assert "swarm" not in plain.model_dump() and "swarm" not in snapshot_body(compile_snapshot(plain, TOOLS))


@pytest.mark.parametrize(
    ("swarm", "expected"),
    [
        ({"mode": "workflow", "flow": "a >> "}, [("flow_invalid", "/swarm/flow")]),
        ({"mode": "workflow", "flow": " "}, [("flow_invalid", "/swarm/flow")]),
        ({"mode": "workflow", "flow": "a >> b >> a"}, [("flow_cycle", "/swarm/flow")]),
        ({"mode": "workflow", "flow": "(a | a) >> b"}, [("flow_duplicate", "/swarm/flow")]),
        ({"mode": "workflow", "flow": "a >> x"}, [("swarm_member_unknown", "/swarm/flow")]),
        ({"mode": "workflow", "members": ["a", "x"]}, [("swarm_member_unknown", "/swarm/members/1")]),
        ({"mode": "workflow", "members": ["a", "b", "a"]}, [("swarm_member_duplicate", "/swarm/members/2")]),
        (
            {"mode": "workflow", "members": ["a", "b"], "flow": "a >> c"},
            [("swarm_member_unused", "/swarm/members/1"), ("swarm_member_unknown", "/swarm/flow")],
        ),
        (
            {"mode": "workflow", "members": ["a", "n"], "swarms": {"n": {"mode": "team"}}},
            [("swarm_empty", "/swarm/swarms/n")],
        ),
        ({"mode": "team", "members": ["a"]}, [("team_too_small", "/swarm/members")]),
        (
            {"mode": "team", "members": ["n", "a"], "swarms": {"n": {"mode": "workflow", "members": ["b"]}}},
            [("swarm_lead_invalid", "/swarm/members")],
        ),
        ({"mode": "handoff", "flow": "(a | b) >> c"}, [("swarm_lead_invalid", "/swarm/flow")]),
        (
            {"mode": "workflow", "members": ["a", "B"], "swarms": {"B": {"mode": "workflow", "members": ["c"]}}},
            [("swarm_name_taken", "/swarm/swarms/B")],
        ),
        (
            {"mode": "workflow", "members": ["a", "n"], "swarms": {"n": {"mode": "workflow", "members": ["b", "n"]}}},
            [("swarm_cycle", "/swarm/swarms/n/members")],
        ),
        (deep(3), [("swarm_too_deep", "/swarm")]),
        (deep(30), [("swarm_too_deep", "/swarm")]),
        (
            {"mode": "team", "members": ["a", "n"], "swarms": {"n": {"mode": "workflow", "members": ["b", "a"]}}},
            [("team_lead_shared", "/swarm/members")],
        ),
    ],
)
def test_each_problem_says_where_it_is(swarm: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = problems(spec(swarm))
    assert found == expected
    assert all(REGISTRY[code].remedy for code, _ in found)


def test_two_levels_of_nesting_fit_into_the_depth_of_runs() -> None:
    assert problems(spec(deep(2))) == []


def test_a_circle_of_swarms_is_reported_by_their_names() -> None:
    one = {"mode": "workflow", "members": ["two"]}
    swarms = {"one": one, "two": {"mode": "workflow", "members": ["three"]}}
    swarms["three"] = {"mode": "workflow", "members": ["a", "one"]}
    (found,) = check(spec({"mode": "workflow", "members": ["b", "one"], "swarms": swarms}), TOOLS)
    assert (found.code, found.detail) == ("swarm_cycle", "one in three in two in one: a circle")


def test_a_delegate_s_tool_needs_a_free_name() -> None:
    equipped = ({"key": "a", "equipped_tools": ["delegate_to_b"]}, "b")
    assert problems(spec({"mode": "team"}, agents=equipped)) == [("delegate_name_invalid", "/swarm")]
    long = ("a", "x" * 120)
    assert problems(spec({"mode": "team"}, agents=long)) == [("delegate_name_invalid", "/swarm")]


def test_a_handoff_leads_to_a_member_or_is_refused() -> None:
    agents = ({"key": "a", "allowed_routes": ["c"]}, "b", "c")
    network = spec({"mode": "handoff", "members": ["a", "b"]}, agents=agents)
    assert problems(network) == [("handoff_unknown", "/agents/0/allowed_routes")]
    routes = ({"key": "a", "allowed_routes": ["n"]}, "b", "c")
    workflow = {"mode": "workflow", "members": ["a", "n"], "swarms": {"n": {"mode": "workflow", "members": ["b"]}}}
    assert problems(spec(workflow, agents=routes)) == [("route_unknown", "/agents/0/allowed_routes")]


def test_somebody_else_marked_as_default_is_refused() -> None:
    network = spec({"mode": "team"}, agents=("a", {"key": "b", "is_default": True}))
    assert problems(network) == [("default_agent_ambiguous", "/agents")]


def test_a_workflow_has_twelve_stages_and_a_stage_sixteen_members() -> None:
    agents = tuple(f"a{n:02}" for n in range(17))
    assert problems(spec({"mode": "workflow"}, agents=agents[:12])) == []
    assert problems(spec({"mode": "workflow"}, agents=agents[:13])) == [("flow_too_long", "/swarm")]
    flow = f"({' | '.join(agents)})"
    assert problems(spec({"mode": "workflow", "flow": flow}, agents=agents)) == [("flow_too_long", "/swarm/flow")]


def test_a_swarm_that_unfolds_to_thousands_of_agents_is_refused() -> None:
    agents = tuple(f"a{n:02}" for n in range(50))
    whole = {"mode": "handoff", "members": list(agents[:49])}
    swarms = {f"n{n}": whole for n in range(6)}
    found = problems(spec({"mode": "workflow", "members": ["a49", *swarms], "swarms": swarms}, agents=agents))
    assert found == [("swarm_too_large", "/swarm")]


def test_handoffs_that_would_burst_the_first_event_of_a_run_are_refused() -> None:
    names = [f"{'x' * 120}{n:02}" for n in range(50)]
    agents = tuple({"key": one, "allowed_routes": [name for name in names if name != one]} for one in names)
    assert problems(spec({"mode": "handoff"}, agents=agents)) == [("swarm_too_large", "/swarm")]


def test_every_mistake_is_reported_at_once() -> None:
    swarm = {
        "mode": "team",
        "members": ["a", "a", "ghost"],
        "swarms": {
            "a": {"mode": "workflow", "flow": "b >>"},
            "n": {"mode": "handoff", "members": ["a"], "flow": "b >> c"},
        },
    }
    found = {code for code, _ in problems(spec(swarm, agents=({"key": "a", "model": "x"}, "b", "c")))}
    assert found == {
        *("model_unknown", "swarm_name_taken", "swarm_member_duplicate", "swarm_member_unknown", "flow_invalid"),
        *("swarm_member_unused", "swarm_lead_invalid", "team_lead_shared"),
    }


def test_a_network_without_agents_says_so() -> None:
    assert problems(spec({"mode": "workflow"}, agents=()))[-1] == ("swarm_empty", "/swarm")
