"""Mistakes in a network that is written in Python are told by file and line, before anything is sent."""

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from towpath import Agent, DeclarationError, Network, RefusedError, Swarm, run, tool
from towpath.networks.ways_to_write import as_in_a_file, as_in_python
from towpath.testing import harness
from towpath_contracts.network_checks.network_agents import check_network
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec

HERE = re.escape(__file__)


def refused(network: Network) -> list[tuple[str, str]]:
    """Return code and detail of every problem; the file is left out of places."""
    with pytest.raises(RefusedError) as caught:
        network.to_spec()
    assert caught.value.code == "network_invalid"
    return [(one.code, one.detail.replace(__file__, "here")) for one in caught.value.problem.errors]


def line_of(agent: Agent | Network) -> int:
    assert agent.declared_at is not None and agent.declared_at.file == __file__
    return agent.declared_at.line


def test_each_problem_is_told_at_the_agent_that_has_it_and_others_at_the_network() -> None:
    triage = Agent("triage", prompt="Use {toolz}.", routes=["biling"], default=True)
    billing = Agent("billing", model="gpt-5")
    network = Network("desk", [triage, billing])
    found = dict(refused(network))
    assert found["placeholder_unknown"].startswith(f"here:{line_of(triage)}: triage: prompt: {{toolz}}")
    assert found["route_unknown"].startswith(f"here:{line_of(triage)}: triage routes to biling")
    assert found["model_unknown"].startswith(f"here:{line_of(billing)}: billing: 'gpt-5': that is not provider:model")
    assert "did you mean 'openai:gpt-5'?" in found["model_unknown"]
    assert (
        found["respond_agent_missing"]
        == f"here:{line_of(network)}: desk: no agent may answer: write can_respond=True at those that do"
    )
    assert line_of(billing) == line_of(triage) + 1 == line_of(network) - 1


def test_the_words_are_those_of_the_platform() -> None:
    network = Network("desk", [Agent("a", default=True), Agent("A", default=True, can_respond=True)])
    spec = NetworkSpec.model_validate({"name": "desk", "agents": [one.to_json() for one in network.agents]})  # type: ignore[union-attr]
    platform = [(one.code, as_in_python(one.detail)) for one in check_network(spec)]
    here = f"here:{line_of(network)}: "
    assert [(code, detail.removeprefix(here).removeprefix("desk: ")) for code, detail in refused(network)] == platform
    assert {code for code, _ in platform} == {"agent_duplicate", "default_agent_ambiguous"}


def test_a_cure_is_told_as_it_is_written_where_the_network_is() -> None:
    said = (
        "from a: write `allow_respond: true` at one that is reached, a (in Python can_respond=True)",
        "keep `is_default: true` at the one that begins (in Python default=True)",
        "`name: x` is odd",
    )
    assert [as_in_python(one) for one in said] == [
        "from a: write can_respond=True at one that is reached, a",
        "keep default=True at the one that begins",
        "`name: x` is odd",
    ]
    assert [as_in_a_file(one) for one in said] == [
        "from a: write `allow_respond: true` at one that is reached, a",
        "keep `is_default: true` at the one that begins",
        "`name: x` is odd",
    ]


def test_form_and_agents_without_a_line_are_told_at_the_network() -> None:
    network = Network("desk", [AgentSpec(key="a", prompt_template=" ")], max_steps="many")  # type: ignore[arg-type]
    assert refused(network)[0][1] == f"here:{line_of(network)}: desk: max_steps: a whole number belongs here"
    network = Network("desk", [AgentSpec(key="a", prompt_template=" ", is_default=True, allow_respond=True)])
    assert refused(network) == [("prompt_empty", f"here:{line_of(network)}: a has a prompt of blanks")]


def test_a_swarm_tells_the_lines_of_its_members() -> None:
    first, second = Agent("a"), Agent("b", prompt="{tool_histori}")
    third = Agent("c", model="opnai:gpt-5")
    found = dict(refused(Swarm("s", flow=first >> (second | third))))
    assert found["placeholder_unknown"].startswith(f"here:{line_of(second)}: b: prompt: {{tool_histori}}")
    assert found["model_unknown"].startswith(f"here:{line_of(third)}: ") and "did you mean 'openai:gpt-5'" in str(found)


def test_a_program_is_told_keywords_and_no_path_of_the_json_that_is_made_of_it() -> None:
    clerk = Agent("clerk", settings={"temprature": 1}, budget={"usd": -1}, default=True, can_respond=True)
    boss = Agent("boss", settings={"temperature": 7}, tools=["no tool"])
    network = Network("desk", [clerk, boss], max_steps=0, goal={"settings": {"max_steps": 0}})
    with pytest.raises(RefusedError) as caught:
        network.to_spec()
    said = [one.detail.replace(__file__, "here") for one in caught.value.problem.errors]
    assert (
        f"here:{line_of(clerk)}: clerk: settings: there is no field 'temprature'; did you mean 'temperature'?" in said
    )
    assert f"here:{line_of(boss)}: boss: settings.temperature: it has to be at most 2" in said
    assert f"here:{line_of(network)}: desk: max_steps: it has to be at least 1" in said
    assert any(one.startswith(f"here:{line_of(clerk)}: clerk: budget.usd: ") for one in said)
    assert {one.pointer for one in caught.value.problem.errors} >= {
        "/max_steps",
        "/agents/1/model_settings/temperature",
    }
    told = str(caught.value).replace(__file__, "here")
    assert "/agents" not in told and told.endswith(" more. Correct each place that is named, and try again.")
    alone = Network("desk", [Agent("clerk", prompt="{toolz}", default=True, can_respond=True)])
    with pytest.raises(
        RefusedError, match=r"clerk: prompt: \{toolz\} is no .* \{tools\}\? Correct it, and try again\.$"
    ):
        alone.to_spec()


def test_a_copy_keeps_the_line_and_an_agent_is_equal_wherever_it_stands() -> None:
    agent = Agent("a", prompt="Hello.")
    assert line_of(replace(agent, default=True)) == line_of(agent)
    assert agent == Agent("a", prompt="Hello.") and "declared_at" not in repr(agent)


def test_an_agent_that_is_run_alone_is_told_once_and_at_its_line() -> None:
    agent = Agent("a", model="gpt-5-mini")
    with pytest.raises(RefusedError) as refused:
        run.sync(agent, "Hello.")  # what it is sent by runs in a thread of its own
    (one,) = refused.value.problem.errors
    assert (one.pointer, one.detail.partition(": ")[0]) == ("/model", f"{__file__}:{line_of(agent)}")


def test_lines_of_the_standard_library_of_installed_packages_and_of_the_harness_are_passed_over() -> None:
    agents = list(map(Agent, ["a"])) + asyncio.run(asyncio.to_thread(lambda: [Agent("b")]))
    assert {line_of(one) for one in agents} == {inspect.currentframe().f_lineno - 1}  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match=rf"network_invalid: {HERE}:\d+: .*gpt-5-mini") as refused:
        harness(Agent("c", model="gpt-5-mini"))
    assert "harness.py" not in str(refused.value)
    code = compile("agent = Agent('d')", "/usr/lib/python3/site-packages/shop/agents.py", "exec")
    names: dict[str, Any] = {"Agent": Agent, "__name__": "shop.agents"}
    exec(code, names)
    assert line_of(names["agent"])


def test_where_nothing_but_installed_packages_declare_a_network_theirs_is_the_place() -> None:
    found: list[Any] = []
    code = compile("found.append(Agent('d'))", "/usr/lib/python3/site-packages/shop/agents.py", "exec")
    thread = threading.Thread(target=exec, args=(code, {"Agent": Agent, "found": found, "__name__": "shop.agents"}))
    thread.start()
    thread.join()
    assert str(found[0].declared_at) == "/usr/lib/python3/site-packages/shop/agents.py:1"
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(Agent, "e").result().declared_at is None


def undecorated() -> None:
    """Is no tool."""


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: Agent("a", tools="count"), r"agent 'a': tools is a list: write tools=\['count'\]"),  # type: ignore[arg-type]
        (lambda: Agent("a", tools=[undecorated]), "agent 'a': undecorated is no tool: write @tool above it"),  # type: ignore[list-item]
        (lambda: Agent("a", tools=[3]), "agent 'a': 3 is no tool, nor the name of one"),  # type: ignore[list-item]
        (lambda: Agent("a", routes=[3]), "agent 'a': 3 is no agent, nor the key of one"),  # type: ignore[list-item]
        (lambda: Network("n", "clerk"), r"network 'n': agents is a list: write \['clerk'\]"),  # type: ignore[arg-type]
        (lambda: Network("n", Agent("a")), r"network 'n': agents is a list: write \[a\]"),  # type: ignore[arg-type]
    ],
)
def test_what_can_be_seen_at_once_is_refused_at_its_line(mistake: Callable[[], Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=rf"^{HERE}:\d+: {told}$"):
        mistake()


def test_tools_and_names_of_tools_are_taken() -> None:
    @tool
    def count() -> None:
        """Count."""

    assert Agent("a", tools=[count, "stock.find"]).to_json()["equipped_tools"] == ["count", "stock.find"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"promt": "Sort."}, "Agent takes no 'promt'; did you mean 'prompt'?"),
        ({"tool": ["a"], "declared_at": None}, "Agent takes no 'tool'; did you mean 'tools'?"),
        (
            {"name": "x", "instructions": "y", "xyz": 1},
            "Agent takes no 'instructions': its instructions are prompt=; no 'name': its name is key=, or the first",
        ),
        ({"handoffs": []}, "Agent takes no 'handoffs': the agents that it hands over to are routes="),
        ({"xyz": 1}, "Agent takes no 'xyz'; there are key, prompt, description"),
    ],
)
def test_a_misspelt_keyword_of_an_agent_is_told_at_its_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=rf"^{HERE}:\d+: {re.escape(said)}") as caught:
        Agent("triage", **given)
    assert "declared_at" not in str(caught.value)


def test_an_agent_shows_the_signature_that_it_declares() -> None:
    shown = inspect.signature(Agent)
    assert list(shown.parameters)[:3] == ["key", "prompt", "description"]
    assert not any(one.kind is one.VAR_KEYWORD for one in shown.parameters.values())
    with pytest.raises(TypeError, match="'key'"):
        Agent()  # type: ignore[call-arg]
