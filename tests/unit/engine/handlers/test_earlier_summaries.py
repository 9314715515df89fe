"""Turns that a conversation leaves out are summarized once, before the first step of the run that leaves them out."""

from typing import Any
from uuid import uuid4

import pytest
from tests.support.engine.machine import RUN, Machine, agent, respond, route, snapshot, use
from tests.unit.engine.handlers.test_fork import Fork

from towpath_contracts.decisions.assessments import UNJUDGED
from towpath_contracts.decisions.earlier_turns import SUMMARY_CHARS, ContinuedRun, EarlierTurn
from towpath_contracts.events import log as ev
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_engine.handlers.children import new_child_run
from towpath_engine.replay import fold, replay
from towpath_engine.requests.network_context import build_context

TURNS = (EarlierTurn(role="user", content="Where are my LAMPS?"), EarlierTurn(role="assistant", content="At sea."))
SUMMARY = "They spoke of lamps."


def behind(**more: Any) -> dict[str, Any]:
    before = ContinuedRun(run_id=uuid4(), thread_id=uuid4(), turns_left_out=2, to_summarize=TURNS, **more)
    return {"continues": before, "messages": TURNS}


def kinds(machine: Machine) -> list[str]:
    return [event.kind for event in machine.events(ev.DecisionRequested)]


def test_a_summary_is_asked_for_once_and_is_no_step() -> None:
    machine = Machine(**behind())
    assert (kinds(machine), machine.state.step) == (["summarize"], 0)
    about = machine.context.assessment
    assert about is not None and about["earlier_turns"] == "[user] Where are my LAMPS?\n[assistant] At sea."
    machine.decide({"summary": SUMMARY})
    assert (kinds(machine), machine.state.step) == (["summarize", "decide"], 1)
    assert (machine.context.messages_summary, machine.context.messages_left_out) == (SUMMARY, 2)
    assert machine.context.assessment is None
    machine.decide(use("echo", text="a"))
    machine.finish()
    machine.decide(route("expert", "look"))
    assert machine.context.messages_summary == SUMMARY
    machine.decide(respond())
    assert kinds(machine) == ["summarize", "decide", "decide", "decide"]
    assert machine.state.status == "completed" and machine.state.step == 3
    assert fold(RUN, machine.network, machine.entries) == machine.state
    assert replay(RUN, machine.network, tuple(machine.entries), machine.facts) is None


@pytest.mark.parametrize(
    "answer", [{"summary": UNJUDGED}, {"summary": 5}, {"other": 1}, None], ids=["unjudged", "no text", "none", "unread"]
)
def test_an_answer_that_is_no_summary_leaves_the_older_one(answer: dict[str, Any] | None) -> None:
    machine = Machine(**behind(summary="older"))
    machine.miss("invalid_output") if answer is None else machine.decide(answer)
    assert kinds(machine) == ["summarize", "decide"]
    assert machine.context.messages_summary == "older"


def test_a_summary_is_bounded() -> None:
    machine = Machine(**behind())
    machine.decide({"summary": "x" * 3 * SUMMARY_CHARS})
    assert len(machine.context.messages_summary) == SUMMARY_CHARS


def test_a_model_that_is_away_ends_the_run_as_it_would_in_a_step() -> None:
    machine = Machine(**behind())
    machine.miss("model_unauthorized")
    assert (machine.state.status, machine.state.reason) == ("failed", "model_unauthorized")


@pytest.mark.parametrize("more", [{"model": "agent:mine"}, {"messages": TURNS, "continues": None}])
def test_agents_in_code_and_runs_without_a_cut_are_not_asked(more: dict[str, Any]) -> None:
    assert kinds(Machine(**{**behind(summary="older"), **more})) == ["decide"]
    own = snapshot(agent("a", model="agent:mine", allow_respond=True))
    assert kinds(Machine(own, **behind())) == ["decide"]


def test_a_swarm_whose_agents_hand_over_has_one_too() -> None:
    handoffs = {"billing": ("expert",), "expert": ("billing",)}
    swarm = CompiledSwarm(mode="handoff", members=tuple(handoffs), stages=(("billing",),), handoffs=handoffs)
    network = snapshot(*(agent(key, allow_respond=True, equipped_tools=("echo",)) for key in handoffs), swarm=swarm)
    machine = Machine(network, kind="swarm", swarm={"swarm": swarm}, **behind())
    machine.decide({"summary": SUMMARY})
    assert (kinds(machine), machine.state.step) == (["summarize", "decide"], 1)
    machine.decide(respond("expert"))
    assert (machine.state.agent_key, machine.context.messages_summary) == ("expert", SUMMARY)
    machine.decide(respond("done"))
    assert machine.state.status == "completed"


def test_a_fork_and_a_child_have_the_summary_and_ask_for_none() -> None:
    machine = Machine(**behind())
    machine.decide({"summary": SUMMARY})
    machine.decide(use("echo", text="a"))
    machine.finish()
    for step in (1, 2):
        fork = Fork(machine, step)
        assert build_context(fork.state).messages_summary == SUMMARY
        assert [e.event.kind for e in fork.entries if isinstance(e.event, ev.DecisionRequested)] == ["decide"]
    asked = ev.ChildStarted.model_validate(
        {
            "child_id": uuid4(),
            "step": 1,
            "index": 0,
            "task": {"purpose": "delegate", "agent_key": "expert", "user_message": "x"},
        }
    )
    child = new_child_run(machine.state, asked).task
    assert child.continues is not None
    assert (child.continues.summary, child.continues.to_summarize, child.messages) == (SUMMARY, (), TURNS)
