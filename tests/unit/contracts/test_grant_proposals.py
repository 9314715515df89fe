"""Proposed grants name only tools that a task can reach; what a model answers is taken whole or refused whole."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.engine.machine import snapshot

from towpath_contracts.grant_proposals.asked_grants import (
    GRANT_NETWORK,
    GRANT_SNAPSHOT,
    answer_schema,
    grant_of_answer,
    offered,
    question_task,
)
from towpath_contracts.grant_proposals.network_grants import grant_of_network, grant_of_plan, reachable_agents
from towpath_contracts.grant_proposals.proposals import GrantProposal, GrantQuestion
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.networks.child_tools import ORCHESTRATE_SPEC, delegate_spec
from towpath_contracts.networks.goal import GoalSettings
from towpath_contracts.networks.plan import Plan
from towpath_contracts.networks.spec import CompiledAgent, NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import INTERNAL_TOOLS
from towpath_orchestrator.core.tasks import check_task
from towpath_orchestrator.settings import OrchestratorSettings

RUN = UUID(int=7)


def tool(name: str, operation: str = "read", **more: Any) -> ToolSpec:
    said = {"toolset": "shop", "operation": operation, "description": f"does {name}"}
    return ToolSpec.model_validate({"name": name, **said, **more})


def agent(key: str, *tools: str, routes: tuple[str, ...] = ()) -> CompiledAgent:
    return CompiledAgent(key=key, model="gemini:flash", equipped_tools=tools, allowed_routes=routes, allow_respond=True)


TOOLS = (
    *(tool("orders.find"), tool("orders.refund", "write"), tool("mail.send", "send"), tool("disk.wipe", "write")),
    INTERNAL_TOOLS["plan_read"],
)
SHOP = snapshot(
    agent("triage", routes=("billing",)),
    agent("billing", "orders.find", "orders.refund", "plan_read", routes=("post",)),
    agent("post", "mail.send", "orders.find"),
    agent("janitor", "disk.wipe"),
    tools=TOOLS,
)


def named(proposal: GrantProposal) -> list[str]:
    assert [rule.tool for rule in proposal.grant] == [entry.tool for entry in proposal.entries]
    return [rule.tool for rule in proposal.grant]


def answered(*tools: Any, network: NetworkSnapshot = SHOP) -> GrantProposal:
    return grant_of_answer(network, 3, {"tools": list(tools)}, RUN, "gemini:flash")


def refused(answer: Any) -> tuple[str, list[str]]:
    with pytest.raises(ProblemError) as caught:
        grant_of_answer(SHOP, 3, answer, RUN, "gemini:flash")
    found = caught.value.problem
    assert found.run_id == str(RUN)
    return found.code, [one.pointer for one in found.errors]


def test_a_network_grants_the_tools_of_reachable_agents_and_no_others() -> None:
    found = grant_of_network(SHOP, 3)
    assert named(found) == ["mail.send", "orders.find", "orders.refund", "plan_read"]
    assert [rule.operation for rule in found.grant] == ["send", "read", "write", "read"]
    assert [one.tool for one in found.left_out] == ["disk.wipe"]
    by = {entry.tool: entry for entry in found.entries}
    assert by["orders.find"].reason == "agents billing, post are equipped with it"
    assert by["orders.refund"].agents == ("billing",)
    assert named(grant_of_network(SHOP, 3, "post")) == ["mail.send", "orders.find"]
    with pytest.raises(LookupError):
        grant_of_network(SHOP, 3, "nobody")


def test_a_plan_grants_the_tools_of_its_agents_and_of_those_they_hand_over_to() -> None:
    call = {"agent_key": "post", "prompt": "say hello"}
    plan = Plan.model_validate({"steps": [{"id": "s1", "type": "agent", "agent": call}]})
    assert named(grant_of_plan(SHOP, 3, plan)) == ["mail.send", "orders.find"]
    both = {"steps": [{"agent_key": "janitor"}, {"agent_key": "billing"}]}
    plan = Plan.model_validate({"steps": [{"id": "s1", "type": "parallel", "parallel": both}]})
    assert named(grant_of_plan(SHOP, 3, plan)) == [
        *("disk.wipe", "mail.send", "orders.find", "orders.refund", "plan_read")
    ]


def test_who_may_have_any_agent_run_reaches_them_all() -> None:
    lead = agent("lead", ORCHESTRATE_SPEC.name)
    network = snapshot(lead, agent("janitor", "disk.wipe"), tools=(*TOOLS, ORCHESTRATE_SPEC))
    assert reachable_agents(network, ["lead"]) == ("lead", "janitor")


def test_specialists_and_who_is_made_to_answer_are_reached_without_a_route() -> None:
    janitor, post = agent("janitor", "disk.wipe"), agent("post", "mail.send")
    network = snapshot(agent("triage"), janitor, post, tools=TOOLS, goal=GoalSettings(specialists=("janitor",)))
    assert named(grant_of_network(network, 1)) == ["disk.wipe"]
    network = snapshot(agent("triage"), janitor, post, tools=TOOLS, force_respond_agent="post")
    assert named(grant_of_network(network, 1)) == ["mail.send"]


def test_members_of_swarms_and_delegates_are_reached_without_a_route() -> None:
    inner = CompiledSwarm(mode="workflow", members=("post", "janitor"), stages=(("post",), ("janitor",)))
    outer = CompiledSwarm(
        mode="team", members=("lead", "crew"), stages=(("lead",),), delegates=("crew",), swarms={"crew": inner}
    )
    lead = agent("lead", "delegate_to_crew")
    others = agent("post", "mail.send"), agent("janitor", "disk.wipe"), agent("guest", "orders.find")
    network = snapshot(lead, *others, tools=(*TOOLS, delegate_spec("crew")), swarm=outer)
    assert reachable_agents(network, ["lead"]) == ("lead", "post", "janitor")
    assert named(grant_of_network(network, 1)) == ["delegate_to_crew", "disk.wipe", "mail.send"]


def test_a_model_is_asked_with_the_task_and_the_tools_and_with_nothing_else() -> None:
    question = GrantQuestion(network="desk", user_message="Where is 8813?", idempotency_key="k")
    task = question_task(question, SHOP)
    assert (task.network, task.user_message, task.model) == (GRANT_NETWORK, "Where is 8813?", "gemini:flash")
    assert set(task.quoted_inputs) == {"tools"}
    shown = json.loads(task.quoted_inputs["tools"])
    assert {one["tool"] for one in shown} == {"orders.find", "orders.refund", "mail.send"}
    assert set(shown[0]) == {"tool", "operation", "effect_class", "description"}
    assert task.grant == (), "the run that asks is granted nothing"
    assert check_task(task, GRANT_SNAPSHOT, OrchestratorSettings()) is None
    assert all(agent.equipped_tools == () for agent in GRANT_SNAPSHOT.agents.values())
    assert GRANT_SNAPSHOT.tools == {}
    other = question_task(question.model_copy(update={"model": "openai:gpt"}), SHOP)
    assert other.model == "openai:gpt"
    played = question_task(question.model_copy(update={"script": ({"action": "RESPOND"},)}), SHOP)
    assert played.model is None, "a script is played, whatever the network's model"


@pytest.mark.parametrize("model", ["scripted:task", "agent:desk"])
def test_where_no_model_can_be_asked_one_has_to_be_named(model: str) -> None:
    network = snapshot(agent("all", "orders.find").model_copy(update={"model": model}), tools=TOOLS)
    question = GrantQuestion(network="desk", user_message="go")
    with pytest.raises(ProblemError) as caught:
        question_task(question, network)
    assert (caught.value.problem.code, model in caught.value.problem.detail) == ("grant_not_proposed", True)
    assert question_task(question.model_copy(update={"model": "openai:gpt"}), network).model == "openai:gpt"


def test_the_tools_of_a_huge_network_fit_into_one_question() -> None:
    for letter, length in (("d", 100), ("\n", 100), ("\x01", 100), ("😀", 10)):
        names = [f"t{number:03}" + "x" * length for number in range(400)]
        many = tuple(tool(name, description=letter * 4_000) for name in names)
        network = snapshot(agent("all", *names), tools=many)
        task = question_task(GrantQuestion(network="desk", user_message="go"), network)
        assert check_task(task, GRANT_SNAPSHOT, OrchestratorSettings()) is None
        assert [one["tool"] for one in json.loads(task.quoted_inputs["tools"])] == names


def test_a_network_with_more_tools_than_fit_is_refused_and_nothing_is_cut() -> None:
    names = [f"t{number:04}" + "x" * 120 for number in range(2_000)]
    network = snapshot(agent("all", *names), tools=tuple(tool(name) for name in names))
    with pytest.raises(ProblemError) as caught:
        question_task(GrantQuestion(network="desk", user_message="go"), network)
    assert caught.value.problem.code == "grant_not_proposed"


def test_the_entries_of_an_answer_become_a_grant_beside_the_tools_of_the_run_itself() -> None:
    found = answered(
        {"tool": "orders.find", "why": "the order\x1b[31m is looked up"},
        {"tool": "mail.send", "why": "the customer is told", "when": "args.to == 'mia@example.org'"},
    )
    assert named(found) == ["orders.find", "mail.send", "plan_read"]
    assert [(rule.operation, rule.when) for rule in found.grant] == [
        *(("read", None), ("send", "args.to == 'mia@example.org'"), ("read", None)),
    ]
    assert [entry.said_by_model for entry in found.entries] == [True, True, False]
    assert [one.tool for one in found.left_out] == ["orders.refund"]
    assert (found.source, found.run_id, found.model, found.version) == ("model", RUN, "gemini:flash", 3)
    assert named(answered()) == ["plan_read"], "a task may need no tool"


def test_an_answer_that_names_what_is_not_there_is_refused_whole() -> None:
    good = {"tool": "orders.find", "why": "x"}
    assert refused({"tools": [good, {"tool": "disk.wipe", "why": "x"}]}) == ("grant_not_proposed", ["/tools/1"])
    assert refused({"tools": [{"tool": "*", "why": "x"}, {"tool": "orders.*", "why": "x"}]})[1] == [
        *("/tools/0", "/tools/1")
    ]
    assert refused({"tools": [good, good]})[1] == ["/tools/1"]
    assert refused({"tools": [good, {**good, "tool": "mail.send", "when": "x" * 1_025}]})[1] == ["/tools/1"]
    for when in ("", " ", None, [], {}, False, 0):
        assert refused({"tools": [{**good, "when": when}]})[1] == ["/tools/0"]
    assert refused({"tools": ["orders.find", {"why": "x"}, {"tool": ["mail.send"]}]})[1] == [
        *("/tools/0", "/tools/1", "/tools/2")
    ]
    for answer in (None, {}, {"tools": "all"}, {"message": "mail.send"}, {"tools": [good] * 300}):
        assert refused(answer) == ("grant_not_proposed", ["/tools"])


def test_the_schema_takes_what_the_reader_takes() -> None:
    schema = answer_schema(offered(SHOP))
    assert schema_faults(schema, {"tools": [{"tool": "mail.send", "why": "x", "when": "args.to == 'x'"}]}) == ()
    assert schema_faults(schema, {"tools": [{"tool": "disk.wipe", "why": "x"}]}) != ()
    assert schema_faults(schema, {"tools": [{"tool": "mail.send"}]}) != ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(sorted(SHOP.tools)),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["tools", "tool", "why", "when"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_answer_grants_more_than_the_network_has(value: Any) -> None:
    answer = value if isinstance(value, dict) else {"tools": value}
    try:
        found = grant_of_answer(SHOP, 1, answer, RUN, "m")
    except ProblemError as error:
        assert error.problem.code == "grant_not_proposed"
        return
    assert set(named(found)) <= {"mail.send", "orders.find", "orders.refund", "plan_read"}


def test_a_question_takes_a_few_steps_and_minutes_whichever_network_it_is_about() -> None:
    """A model that is told why its answer was no grant has two tries more, and nobody waits for it for long."""
    task = question_task(GrantQuestion(network="desk", user_message="go"), SHOP)
    assert (task.max_steps, GRANT_SNAPSHOT.max_steps) == (3, 3)
    assert 2 * GRANT_SNAPSHOT.step_timeout_ms == GRANT_SNAPSHOT.timeout_ms == 120_000


def test_a_model_is_shown_so_much_of_a_description_and_says_so_much_of_its_reason() -> None:
    told = tool("orders.find", description="d" * 601)
    network = snapshot(agent("all", "orders.find"), tools=(told,))
    task = question_task(GrantQuestion(network="desk", user_message="go"), network)
    (shown,) = json.loads(task.quoted_inputs["tools"])
    assert len(shown["description"]) == 600
    (entry,) = answered({"tool": "orders.find", "why": "w" * 301}, network=network).entries
    assert len(entry.reason) == 300


def test_a_schema_names_the_tools_as_long_as_their_names_are_short() -> None:
    few = [tool("t" * 99 + str(number)) for number in range(10)] * 32
    assert "enum" in answer_schema(few)["properties"]["tools"]["items"]["properties"]["tool"]
    assert "enum" not in answer_schema([*few, tool("x")])["properties"]["tools"]["items"]["properties"]["tool"]


def test_a_reason_names_four_agents_and_counts_the_others() -> None:
    def reason(count: int) -> str:
        equipped = [agent(f"a{number}", "mail.send") for number in range(count)]
        first = agent("a", routes=tuple(one.key for one in equipped))
        (entry,) = grant_of_network(snapshot(first, *equipped, tools=TOOLS), 1).entries
        return entry.reason

    assert "a0, a1, a2, a3 are equipped" in reason(4)
    assert "a0, a1, a2, a3 and 1 more are equipped" in reason(5)
