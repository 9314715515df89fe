"""The turns of an epoch: what an agent's prompts are made of, so that each begins with the one before."""

from typing import Any

import pytest
from tests.support.engine.machine import Machine, agent, respond, route, snapshot, use, use_all

from towpath_contracts.decisions.epoch_turns import EpochTurns
from towpath_engine.reducers import epoch_turns as reducer
from towpath_engine.reducers.epoch_turns import fitted_decision
from towpath_engine.requests.network_context import build_context
from towpath_engine.state.limits import json_bytes
from towpath_engine.state.run import dump_state, load_state


def machine(**options: Any) -> Machine:
    return Machine(epoch_turns=True, **options)


def epoch_turns(run: Machine) -> EpochTurns:
    found = run.context.epoch_turns
    assert found is not None
    return found


def test_a_run_that_an_earlier_release_began_has_none() -> None:
    run = Machine()
    run.decide(use("echo", text="a"))
    run.finish(result="x")
    assert (run.context.epoch_turns, run.state.epoch_turns) == (None, None)


def test_a_decision_is_kept_with_its_calls_and_what_was_told_before_it() -> None:
    run = machine()
    run.decide(use("nothing"))
    run.decide(use_all(("echo", {"text": "a"}), ("lookup", {})))
    ids = tuple(call.call.execution_id for call in run.state.calls)
    run.finish(0, result="x")
    run.finish(1, result="y")
    refused, made = epoch_turns(run).turns
    assert (refused.step, refused.steps_left, refused.calls, refused.feedback) == (1, 10, (), ())
    assert (made.step, made.steps_left, made.calls) == (2, 9, ids)
    assert made.decision == use_all(("echo", {"text": "a"}), ("lookup", {}))
    assert "nothing" in made.feedback[0], "the refusal of the decision before"


def test_what_a_person_said_stays_in_the_turn_that_it_was_told_in() -> None:
    run = machine()
    run.steer("note", text="The order is 8813.")
    run.decide(use("echo", text="a"))
    run.finish(result="x")
    told = run.context.notes
    assert told == ("A person says: The order is 8813.",)
    run.steer("note", 2, "It is urgent.")
    run.decide(use("echo", text="b"))
    run.finish(result="y")
    assert [turn.notes for turn in epoch_turns(run).turns] == [(), told], "not yet the one that came meanwhile"
    assert run.context.notes == ("A person says: It is urgent.",)


def test_turns_are_added_and_never_changed() -> None:
    run = machine(max_steps=30)
    before: tuple[Any, ...] = ()
    outputs: dict[Any, str] = {}
    for number in range(20):
        run.decide(use("echo", text=str(number)))
        run.finish(result=str(number) * 800)
        now = epoch_turns(run).turns
        assert now[: len(before)] == before and len(now) == number + 1
        before = now
        shown = {output.execution_id: output.text for output in run.context.outputs}
        assert outputs.items() <= shown.items()
        outputs = shown


def test_control_that_is_handed_over_begins_other_turns_with_the_log_of_the_last() -> None:
    run = machine()
    run.decide(use("echo", text="a"))
    run.finish(result="x")
    run.decide(route("expert", "look here"))
    assert epoch_turns(run).turns == ()
    assert list(epoch_turns(run).log) == run.log.execution_log[-10:]
    run.decide(use("echo", text="b"))
    run.finish(result="x")
    (turn,) = epoch_turns(run).turns
    assert (turn.handoff, turn.handoff_from) == ("look here", "triage")
    assert run.context.handoff is None, "it was told once"


def test_a_context_that_is_full_is_emptied_by_half_at_once() -> None:
    run = machine(max_steps=60, context_limit=10_000)
    cuts, shown = 0, 0
    for number in range(50):
        run.decide(use("echo", text=str(number)))
        run.finish(result="r" * 1_000)
        count = len(run.context.outputs)
        if count <= shown:
            cuts += 1
            assert run.state.output_bytes <= 5_000
        shown = count
        assert run.state.output_bytes <= 10_000
    assert 6 <= cuts <= 9, "each leaves room for several steps"
    assert run.context.older_count + shown == 50


def test_a_result_that_does_not_fit_as_a_whole_leaves_room_for_what_is_read_of_it() -> None:
    run = machine(context_limit=10_000)
    run.decide(use("echo", text="a"))
    run.finish(result="r" * 50_000)
    assert run.state.output_bytes <= 7_500
    run.decide(use("echo", text="b"))
    run.finish(result="s" * 2_000)
    assert run.state.output_bytes > 9_000, "nothing of the first was taken away"
    run.decide(use("lookup", text="c"))
    run.finish(result="t" * 7_000)
    assert [output.text[:1] for output in run.context.outputs][:2] == ["t", "s"], "a large one has its room"


def test_decisions_that_have_no_room_any_more_are_counted() -> None:
    run = machine(max_steps=60, context_limit=2_000)
    seen = 0
    for number in range(40):
        run.decide(use("echo", text=f"{number}" + "x" * 200))
        run.finish(result="r")
        kept = run.state.epoch_turns
        assert kept is not None and sum(kept.sizes) <= 2_000
        assert kept.left_out >= seen and kept.left_out + len(kept.turns) == number + 1
        seen = kept.left_out
    assert seen > 20


def test_a_run_of_many_short_decisions_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 40  # each decision renders all turns before it
    monkeypatch.setattr(reducer, "MAX_TURNS", most)
    run = machine(max_steps=most + 30, context_limit=200_000)
    kept = []
    for number in range(most + 20):
        run.decide(use("echo", text=str(number)))
        run.finish(result=number)
        kept.append(len(epoch_turns(run).turns))
    assert max(kept) == most
    assert kept[-1] >= most // 2


def test_a_large_decision_is_cut_where_its_texts_are_long() -> None:
    decision = use("echo", text="x" * 50_000)
    cut, size = fitted_decision(decision, 2_000)
    assert size == json_bytes(cut) <= 2_000
    assert cut["action_details"]["tool_params"]["text"].endswith("(49600 more characters)")
    assert fitted_decision(decision, 100_000) == (decision, json_bytes(decision))
    many = use_all(*(("echo", {"text": "y" * 900}) for _ in range(10)))
    assert fitted_decision(many, 200)[0] == {"action": "USE_TOOL"}


def test_the_tools_of_a_stay_are_the_same_from_its_first_prompt_on() -> None:
    run = machine()
    first = run.context.tools
    assert [tool.name for tool in first][-2:] == ["output_read", "output_search"]
    run.decide(use("echo", text="a"))
    run.finish(result="x" * 60_000)
    assert run.context.tools == first
    assert build_context(Machine(epoch_turns=True).state, epoch_turns=False).tools == first[:-2]


def test_what_was_handed_over_is_kept_in_part_where_it_is_large() -> None:
    run = machine(context_limit=8_000)
    run.decide(route("expert", "h" * 50_000))
    assert run.context.handoff == "h" * 50_000
    run.decide(use("echo", text="b"))
    run.finish(result="x")
    assert (epoch_turns(run).turns[0].handoff or "").endswith("h… (48000 more characters)")


def test_it_is_stored_with_the_state() -> None:
    run = machine()
    run.decide(use("nothing"))
    run.decide(use("echo", text="a"))
    run.finish(result="x")
    again = load_state(dump_state(run.state), run.state.created, run.network)
    assert again.epoch_turns == run.state.epoch_turns


def test_it_is_sent_only_to_models_that_read_their_prompts() -> None:
    for model, sent in (("scripted:task", False), ("agent:greeter", False), ("openai:gpt-5-mini", True)):
        desk = snapshot(agent("triage", model=model, equipped_tools=("echo",), allow_respond=True))
        run = Machine(desk, epoch_turns=True)
        (asked,) = run.requests
        assert (asked.context.epoch_turns is not None) is sent  # type: ignore[union-attr]
        run.decide(respond())
