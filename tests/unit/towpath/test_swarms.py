"""Swarms as people write them: with operators, with text, in YAML, and wrongly."""

from pathlib import Path
from typing import Any

import pytest

from towpath import Agent, DeclarationError, Network, RefusedError, Swarm, load_network
from towpath_engine.publish.networks import check, compile_snapshot

A, B, C, D = (Agent(key, prompt=f"You are {key}.") for key in "abcd")


def flow_of(swarm: Swarm) -> str | None:
    written = swarm.to_spec().swarm
    assert written is not None
    return written.flow


@pytest.mark.parametrize(
    ("flow", "written"),
    [
        (A >> B, "a >> b"),
        (A >> B >> C, "a >> b >> c"),
        ((A | B) >> C, "(a | b) >> c"),
        ((A | B | C) >> D, "(a | b | c) >> d"),
        (A >> (B | C) >> D, "a >> (b | c) >> d"),
        ((A >> B) >> (C >> D), "a >> b >> c >> d"),
        (A | B, "(a | b)"),
        ((A | B) >> (C | D), "(a | b) >> (c | d)"),
        (A, "a"),
    ],
)
def test_operators_write_the_flow(flow: Any, written: str) -> None:
    swarm = Swarm("s", flow=flow)
    assert flow_of(swarm) == written
    text = Swarm("s", [A, B, C, D][: len(swarm.agents)], flow=written)
    assert text.to_spec().swarm == swarm.to_spec().swarm


@pytest.mark.parametrize(
    "mistake",
    [lambda: A | B >> C, lambda: A >> B | C, lambda: A >> "b", lambda: A | 3, lambda: (A >> B) | "c"],  # type: ignore[operator]
)
def test_what_operators_can_not_mean_is_refused_at_its_line(mistake: Any) -> None:
    with pytest.raises(DeclarationError, match=r"put (what runs in parallel|them) in parentheses: \(a \| b\) >> c"):
        mistake()


def test_a_row_in_a_group_is_told_how_python_read_it_and_that_a_swarm_can_stand_there() -> None:
    with pytest.raises(DeclarationError, match=r"Python reads a \| b >> c as a \| \(b >> c\).*Swarm\(\"row\", flow="):
        A | (B >> C)  # type: ignore[operator]
    beside = Swarm("s", flow=A | Swarm("row", flow=B >> C))
    assert flow_of(beside) == "(a | row)"
    assert check(beside.to_spec(), {}) == []


def test_a_swarm_in_python_is_the_network_in_yaml(tmp_path: Path) -> None:
    review = Swarm("review", [A, B], mode="team", max_parallel=2, description="They review.", model="gemini:x")
    lead = Agent("lead", routes=["writer"], model="openai:y")
    writer = Agent("writer", can_respond=True)
    built = Swarm("desk", [lead, review, writer], flow=lead >> review >> writer, max_steps=30, description="A desk.")
    file = tmp_path / "desk.yaml"
    file.write_text(
        """
kind: Network
name: desk
description: A desk.
max_steps: 30
swarm:
  mode: workflow
  members: [lead, review, writer]
  flow: lead >> review >> writer
  description: A desk.
  swarms:
    review: {mode: team, members: [a, b], max_parallel: 2, description: They review.}
agents:
  - {key: lead, allowed_routes: [writer], model: "openai:y"}
  - {key: a, prompt_template: You are a., model: "gemini:x"}
  - {key: b, prompt_template: You are b., model: "gemini:x"}
  - {key: writer, allow_respond: true}
"""
    )
    assert load_network(file) == built.to_spec()
    assert isinstance(built, Network), "whatever takes a network takes a swarm"
    assert check(built.to_spec(), {}) == []


def test_a_swarm_in_a_swarm_in_a_swarm_is_written_once() -> None:
    inner = Swarm("inner", [A, B])
    middle = Swarm("middle", [inner, C], mode="workflow")
    outer = Swarm("outer", [middle, D, inner], mode="workflow").to_spec()
    assert outer.swarm is not None and list(outer.swarm.swarms) == ["middle", "inner"]
    assert [agent.key for agent in outer.agents] == ["a", "b", "c", "d"]
    compiled = compile_snapshot(outer, {}).swarm
    assert compiled is not None and compiled.swarms["middle"].swarms["inner"].members == ("a", "b")


def test_what_is_wrong_with_a_flow_is_told_before_it_is_sent() -> None:
    with pytest.raises(RefusedError) as caught:
        Swarm("s", flow=A >> B >> A).to_spec()
    assert [(one.pointer, one.code) for one in caught.value.problem.errors] == [("/swarm/flow", "flow_cycle")]
    with pytest.raises(RefusedError) as caught:
        Swarm("s", [Agent("a", prompt="one"), Agent("a", prompt="two")]).to_spec()
    assert [one.code for one in caught.value.problem.errors] == ["agent_duplicate", "swarm_member_duplicate"]


def test_what_no_swarm_can_be_made_of_is_refused() -> None:
    with pytest.raises(DeclarationError, match="a member is an Agent or a Swarm, not str"):
        Swarm("s", ["a"])  # type: ignore[list-item]
    with pytest.raises(DeclarationError, match="two swarms in it are called one"):
        Swarm("s", [Swarm("one", [A]), Swarm("one", [B])]).to_spec()
    with pytest.raises(DeclarationError, match="max_steps can only be set for the outermost swarm"):
        Swarm("s", [Swarm("one", [A], max_steps=3)]).to_spec()
    with pytest.raises(RefusedError, match=r": s: mode: .*'handoff'"):
        Swarm("s", [A], mode="anarchy").to_spec()  # type: ignore[arg-type]


def test_a_wrong_swarm_in_a_file_is_reported_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: n\nagents:\n  - key: a\nswarm:\n  mode: anarchy\n  max_handoffs: -1\n  flw: a\n")
    with pytest.raises(RefusedError) as caught:
        load_network(file)
    for found in (f"{file}:5: ", f"{file}:6: ", f"{file}:7: there is no field 'flw'; did you mean 'flow'?"):
        assert found in caught.value.problem.detail
