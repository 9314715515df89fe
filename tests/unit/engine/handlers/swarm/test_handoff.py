"""Handoff swarms in the run machine: who acts next, how often, and what that agent is shown."""

import random
from typing import Any

import pytest
from tests.support.engine.machine import Machine, agent, respond, route, snapshot, types, use, use_all

from towpath_contracts import facts
from towpath_contracts.decisions.decision import decision_schema
from towpath_contracts.events import log as ev
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.runs.children import ChildTask
from towpath_engine.handlers.fork import ForkStateFinder
from towpath_engine.reducers.fork import inherited_of

RING = tuple(f"a{n:02}" for n in range(12))


def desk(handoffs: dict[str, tuple[str, ...]], *, steps: int = 200, **more: Any) -> Machine:
    """A run of a handoff swarm whose first agent is the first key."""
    swarms: dict[str, CompiledSwarm] = more.pop("swarms", {})
    options = {name: more.pop(name) for name in ("context_limit", "response_schema") if name in more}
    swarm = CompiledSwarm(
        mode="handoff",
        members=(*handoffs, *swarms),
        stages=((next(iter(handoffs)),),),
        handoffs=handoffs,
        swarms=swarms,
        **more,
    )
    agents = tuple(
        agent(key, allow_respond=True, equipped_tools=("echo", "lookup"), description=f"It is {key}.")
        for key in (*handoffs, "worker")
    )
    network = snapshot(*agents, swarm=swarm, max_steps=steps)
    return Machine(network, kind="swarm", swarm={"swarm": swarm}, **options)


def pair(**more: Any) -> Machine:
    return desk({"billing": ("expert",), "expert": ("billing",)}, **more)


def ring(**more: Any) -> Machine:
    """Twelve agents, each of which may hand over to the next one."""
    return desk({key: (RING[(n + 1) % len(RING)],) for n, key in enumerate(RING)}, **more)


def test_b10_an_answer_that_names_a_handoff_transfers_and_any_other_answer_ends_the_run() -> None:
    """Row B10: swarm handoff: output equal to a declared handoff name transfers with full history."""
    run = pair()
    made = run.decide(respond("  expert\n"))
    assert types(made)[:4] == ["decision_received", "instruction_issued", "handed_off", "agent_transferred"]
    (handed,) = run.events(ev.SwarmHandoffRequested)
    assert (handed.source, handed.target, handed.count, handed.said) == ("billing", "expert", 1, "  expert\n")
    assert (run.state.agent_key, run.state.epoch, run.state.step) == ("expert", 1, 2)
    run.decide(respond("expert"))  # its own name: not one of its handoffs
    assert (run.finished.status, run.finished.reason) == ("completed", "responded")
    assert run.finished.final == {"message": "expert"}


@pytest.mark.parametrize(
    "answer", ["Expert", "expert, please", {"message": "expert", "why": "x"}, {"to": "expert"}, ""]
)
def test_b10_only_the_very_name_alone_is_a_handoff(answer: Any) -> None:
    run = pair()
    run.decide(respond(answer))
    assert run.finished.status == "completed" and run.events(ev.SwarmHandoffRequested) == []


def test_b10_a_name_that_is_no_declared_handoff_is_an_answer() -> None:
    run = desk({"billing": (), "expert": ("billing",)})
    run.decide(respond("expert"))
    assert run.finished.final == {"message": "expert"}


def test_b10_a_schema_of_the_answer_binds_no_answer_that_hands_over() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    run = pair(response_schema=schema)
    run.decide(respond("expert"))
    assert (run.state.agent_key, run.state.feedback) == ("expert", ())
    run.decide(respond("expert"))  # its own name: an answer, which has a form
    assert (run.state.agent_key, "JSON Schema" in run.state.feedback[0]) == ("expert", True)
    run.decide(respond({"n": 7}))
    assert run.finished.final == {"n": 7}


def test_b10_a_route_is_a_handoff_too_and_leads_nowhere_else() -> None:
    run = pair()
    assert [(one.agent_key, one.description) for one in run.context.routes] == [("expert", "It is expert.")]
    run.decide(route("worker"))
    assert run.events(ev.DecisionRefused)[0].code == "route_not_allowed"
    run.decide(route("expert", {"order": 7}))
    assert (run.state.agent_key, run.context.handoff, run.context.handoff_from) == ("expert", '{"order":7}', "billing")
    assert run.events(ev.SwarmHandoffRequested)[0].said == '{"order":7}'


@pytest.mark.parametrize("how", [respond, route])
def test_b10_ten_handoffs_happen_and_the_eleventh_ends_the_run(how: Any) -> None:
    """Row B10: `max_handoffs` 10 exactly."""
    run = ring()
    for n in range(10):
        run.decide(how(RING[n + 1]))
    assert run.state.agent_key == RING[10] and not run.state.is_final
    run.decide(how(RING[11]))
    assert (run.finished.status, run.finished.reason) == ("failed", "max_handoffs_exceeded")
    assert [one.count for one in run.events(ev.SwarmHandoffRequested)] == list(range(1, 11))
    assert len(run.events(ev.AgentTransferred)) == 10


def test_b10_a_swarm_without_handoffs_ends_at_the_first() -> None:
    run = pair(max_handoffs=0)
    run.decide(respond("expert"))
    assert (run.finished.reason, run.state.agent_key) == ("max_handoffs_exceeded", "billing")


def test_b10_the_next_agent_sees_all_answers_and_calls_in_order() -> None:
    run = desk({"billing": ("expert",), "expert": ("judge",), "judge": ("billing",)})
    run.decide(use_all(("lookup", {"text": "order 7"}), ("echo", {"text": "hm"})))
    run.finish(1, "hm")
    run.finish(0, {"total": 12})
    assert run.context.run is None, "what an agent did itself stands among its outputs"
    run.decide(respond("expert"))
    run.decide(use("lookup", "look again", text="order 8"))
    run.fail()
    run.decide(respond("judge"))
    context = run.context
    assert context.user_message == "What is new?" and context.outputs == ()
    assert context.run == {
        "conversation": {
            "turns": [
                {
                    "agent": "billing",
                    "step": 1,
                    "reasoning": "together",
                    "calls": [
                        {
                            "tool": "lookup",
                            "arguments": {"text": "order 7"},
                            "status": "succeeded",
                            "result": '{"total":12}',
                        },
                        {"tool": "echo", "arguments": {"text": "hm"}, "status": "succeeded", "result": "hm"},
                    ],
                },
                {"agent": "billing", "step": 2, "reasoning": "known", "said": "expert", "handed_over_to": "expert"},
                {
                    "agent": "expert",
                    "step": 3,
                    "reasoning": "look again",
                    "calls": [
                        {
                            "tool": "lookup",
                            "arguments": {"text": "order 8"},
                            "status": "failed",
                            "result": context.run["conversation"]["turns"][2]["calls"][0]["result"],
                        }
                    ],
                },
                {"agent": "expert", "step": 4, "reasoning": "known", "said": "judge", "handed_over_to": "judge"},
            ],
            "left_out": 0,
        }
    }
    assert "boom" in context.run["conversation"]["turns"][2]["calls"][0]["result"]


def test_b10_the_conversation_is_bounded_and_says_how_much_is_left_out() -> None:
    run = pair(context_limit=2_000, steps=400)
    for n in range(8):
        run.decide(use("lookup", text=f"{n} {'x' * 300}"))
        run.finish(0, {"found": f"{n} {'y' * 3_000}"})
        run.decide(respond("expert" if n % 2 == 0 else "billing"))
    held = run.state.swarm
    assert held is not None and sum(held.sizes) <= 2_000
    shown = (run.context.run or {})["conversation"]
    assert shown["left_out"] + len(held.turns) == 16 and shown["left_out"] > 0
    assert shown["turns"][-1]["handed_over_to"] == "billing", "the newest are kept"
    assert max(len(call["result"]) for turn in shown["turns"] for call in turn.get("calls", ())) <= 500


def test_b10_a_large_result_is_shown_in_part_to_the_next_agent_which_may_read_the_rest() -> None:
    run = pair(context_limit=8_000)
    run.decide(use("echo", text="a"))
    read = run.call_id(0)
    run.finish(result="begin" + "x" * 50_000 + "end")
    run.decide(respond("expert"))
    (call,) = (run.context.run or {})["conversation"]["turns"][0]["calls"]
    assert call["result"].startswith("begin") and call["result"].endswith("end") and len(call["result"]) <= 2_010
    assert call["cut"] and str(read) in call["result"] and "of 50008 bytes" in call["result"]
    assert {"output_read", "output_search"} <= {tool.name for tool in run.context.tools}


def test_a_turn_larger_than_all_room_is_shortened_and_not_lost() -> None:
    run = pair(context_limit=1_200)
    run.decide(use_all(*(("lookup", {"text": f"{n}{'x' * 900}"}) for n in range(3))))
    for n in range(3):
        run.finish(n, "y" * 900)
    run.decide(respond("expert"))
    turns = (run.context.run or {})["conversation"]["turns"]
    assert [len(call["result"]) for call in turns[0]["calls"]] == [100, 100, 100]


def test_an_agent_has_ten_steps_each_time_that_it_acts() -> None:
    run = pair(agent_steps=3)
    for n in range(2):
        run.decide(use("lookup", text=str(n)))
        run.finish(0, n)
    run.decide(respond("expert"))
    for n in range(3):
        run.decide(use("lookup", text=f"more {n}"))
        run.finish(0, f"more {n}")
    assert (run.finished.reason, run.state.step) == ("max_steps_exceeded", 6)


def test_handing_to_and_fro_without_work_is_a_loop() -> None:
    run = pair()
    for n in range(5):
        run.decide(respond("expert" if n % 2 == 0 else "billing"))
    assert [one.detector for one in run.events(ev.LoopDetected)] == ["handoffs"]


def test_a_nested_swarm_takes_over_with_the_message_alone_and_answers_for_the_run() -> None:
    inner = CompiledSwarm(mode="handoff", members=("worker",), stages=(("worker",),), description="They help.")
    run = desk({"billing": ("help",)}, swarms={"help": inner})
    assert [(one.agent_key, one.description) for one in run.context.routes] == [("help", "They help.")]
    run.decide(respond("help"))
    (started,) = run.events(ev.ChildStarted)
    child: ChildTask = started.task
    assert (child.agent_key, child.user_message, child.max_steps) == ("worker", "What is new?", 10)
    assert child.swarm is not None and (child.swarm.name, child.swarm.swarm) == ("help", inner)
    assert run.state.agent_key == "billing" and not run.events(ev.AgentTransferred)
    fact = facts.ChildReportedFact(
        run_id=run.state.run_id,
        child_id=started.child_id,
        child_seq=9,
        status="completed",
        ended=True,
        final={"message": "Here."},
    )
    run.feed(fact)
    assert (run.finished.status, run.finished.final) == ("completed", {"message": "Here."})


def test_a_nested_swarm_that_fails_ends_the_run() -> None:
    inner = CompiledSwarm(mode="handoff", members=("worker",), stages=(("worker",),))
    run = desk({"billing": ("help",)}, swarms={"help": inner})
    run.decide(route("help"))
    child = run.events(ev.ChildStarted)[0].child_id
    run.feed(
        facts.ChildReportedFact(
            run_id=run.state.run_id, child_id=child, child_seq=3, status="failed", ended=True, reason="loop_detected"
        )
    )
    assert (run.finished.status, run.finished.reason) == ("failed", "handoff_failed")


def test_swarms_take_the_three_actions_of_a_network() -> None:
    assert decision_schema("swarm") == decision_schema("network")
    run = pair()
    run.decide({"action": "ABANDON", "action_reasoning": "", "action_details": {"rationale": "no"}})
    assert run.events(ev.DecisionRefused)[0].code == "decision_invalid"


@pytest.mark.parametrize("seed", range(40))
def test_whatever_agents_say_the_conversation_is_whole_and_the_limits_hold(seed: int) -> None:
    """Turns stand in the order of their steps, every call with its result; handoffs and turns of agents are bounded."""
    dice = random.Random(seed)
    run = ring(context_limit=dice.choice((0, 500, 3_000, 200_000)), agent_steps=4, max_handoffs=dice.randint(0, 12))
    while not run.state.is_final:
        match dice.randrange(5):
            case 0:
                run.decide(respond(dice.choice(RING)))
            case 1:
                run.decide(route(dice.choice(RING)))
            case _:
                calls = [("lookup", {"text": str(dice.random())}) for _ in range(dice.randint(1, 3))]
                run.decide(use_all(*calls))
                for place in dice.sample(range(len(calls)), k=len(calls) if run.state.calls else 0):
                    run.fail(place, message=str(dice.random())) if dice.random() < 0.2 else run.finish(place, "x" * 90)
        held = run.state.swarm
        assert held is not None and held.handoffs <= 12
        steps = [turn["step"] for turn in held.turns]
        assert steps == sorted(steps)
        assert all(call["status"] for turn in held.turns for call in turn.get("calls", ()))
    taken = sum(1 for one in run.events(ev.InstructionIssued) if one.instruction.kind == "call_tools")
    held = run.state.swarm
    assert held is not None and len(held.turns) + held.left_out == taken + held.handoffs


def test_a_fork_knows_the_conversation() -> None:
    run = pair()
    run.decide(use("lookup", text="x"))
    run.finish(0, "found")
    run.decide(respond("expert"))
    point = ForkStateFinder(run.state.run_id, run.network, 3)
    for entry in run.entries:
        point.observe(entry)
    inherited = inherited_of(point.state(), new_script=True)
    assert inherited["swarm"]["handoffs"] == 1 and len(inherited["swarm"]["turns"]) == 2
