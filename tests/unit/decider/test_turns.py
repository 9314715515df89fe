"""The prompt of an agent as a conversation: roles, and a beginning that stays as it was."""

import itertools
import uuid
from typing import Any

from tests.support.decider.decisions import RESPOND, USE_TOOL, as_text, context

from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.decisions.epoch_turns import EpochTurn, EpochTurns
from towpath_contracts.decisions.request import DecisionKind, FullToolOutput, OlderOutput, PromptContext
from towpath_decider.core.prompt import Prompt, render

CALLS = tuple(uuid.UUID(int=number) for number in range(1, 8))


def output(call: uuid.UUID, step: int, text: str = "OUT") -> FullToolOutput:
    return FullToolOutput(execution_id=call, tool="crm.lookup", step=step, status="succeeded", text=text)


def turn(step: int, decision: dict[str, Any] = USE_TOOL, **more: Any) -> EpochTurn:
    return EpochTurn(step=step, steps_left=11 - step, decision=decision, **more)


def asked(*turns: EpochTurn, left_out: int = 0, log: tuple[Any, ...] = (), **changes: Any) -> PromptContext:
    step = turns[-1].step + 1 if turns else 1
    epoch_turns = EpochTurns(turns=turns, left_out=left_out, log=log)
    return context(**{"steps_left": 11 - step, "epoch_turns": epoch_turns, **changes})


def stretch() -> list[PromptContext]:
    """What four requests of one stay are rendered from: two calls, a refusal, and a handover to itself."""
    first = turn(1, calls=CALLS[:1])
    refused = turn(2, {**USE_TOOL, "action_details": {"tool_name": "crm.delete", "tool_params": {}}})
    route = turn(3, {"action": "ROUTE_TO_AGENT", "action_details": {"target_agent_name": "triage"}}, feedback=("No.",))
    one, two = output(CALLS[0], 1, "first"), output(CALLS[1], 4, "second")
    last = turn(4, calls=CALLS[1:2], handoff="go on", handoff_from="triage", notes=("Mind the budget.",))
    return [
        asked(),
        asked(first, outputs=(one,)),
        asked(first, refused, outputs=(one,), feedback=("No.",)),
        asked(
            first,
            refused,
            route,
            outputs=(one,),
            handoff="go on",
            handoff_from="triage",
            notes=("Mind the budget.",),
        ),
        asked(first, refused, route, last, outputs=(two, one)),
    ]


def test_every_prompt_of_a_stay_begins_with_the_whole_one_before() -> None:
    prompts = [render(one, native_tools=True) for one in stretch()]
    for before, now in itertools.pairwise(prompts):
        assert now.instructions == before.instructions
        assert now.turns[: len(before.turns)] == before.turns
        assert len(now.turns) == len(before.turns) + 2
        assert now.text.startswith(before.text)


def test_decisions_are_the_models_turns_and_results_the_users() -> None:
    prompt = render(stretch()[-1])
    assert [one.role for one in prompt.turns] == ["user", "model"] * 4 + ["user"]
    assert prompt.turns[1].text == as_text(USE_TOOL).replace(": ", ":").replace(", ", ",")
    assert prompt.turns[2].text.startswith(
        f"### crm.lookup (execution_id {CALLS[0]}, step 1, succeeded)\n<<<tool_output "
    )
    assert "## Why your last decision was not carried out\n- No." in prompt.turns[4].text
    assert "## Handed over by triage\n<<<handoff " in prompt.turns[6].text
    assert "- Mind the budget." in prompt.turns[6].text
    assert prompt.turns[8].text.endswith("Steps left, this one included: 6")


def test_calls_and_results_are_there_in_the_providers_own_form_too() -> None:
    turns = render(stretch()[-1]).turns
    (call,), (result,) = turns[1].calls, turns[2].results
    assert (call.name, call.arguments, turns[1].beside) == (
        "crm.lookup",
        {"customer": "ada"},
        USE_TOOL["action_reasoning"],
    )
    assert result.call_id == call.call_id == f"call_{CALLS[0].hex}"
    assert "first" in result.text and "first" not in turns[2].beside
    (refused,), (nothing,) = turns[3].calls, turns[4].results
    assert (refused.call_id, nothing.text) == (nothing.call_id, "Not made.")
    assert "- No." in turns[4].beside, "every call has a result, also one that was refused"
    assert not turns[5].calls and not turns[6].results


def test_calls_that_have_no_such_form_are_told_in_words() -> None:
    broken = {"action": "USE_TOOL", "action_details": {"tool_name": "crm.lookup", "tool_params": "{no"}}
    (_, answered, told) = render(asked(turn(1, broken), feedback=("Not JSON.",))).turns
    assert (answered.calls, told.results) == ((), ())
    assert '"tool_params":"{no"' in answered.text


def test_results_that_gave_way_are_shown_where_they_stood_by_what_is_left_of_them() -> None:
    older = OlderOutput(execution_id=CALLS[0], tool="crm.lookup", preview="ada…", size=40_000)
    prompt = render(
        asked(
            turn(1, calls=CALLS[:1]),
            turn(2, calls=CALLS[1:2]),
            older_outputs=(older,),
            older_count=2,
        )
    )
    assert f"(execution_id {CALLS[0]}, 40000 bytes): its result is not shown any more" in prompt.turns[2].text
    assert "ada…" in prompt.turns[2].text
    assert f"### execution_id {CALLS[1]}: its result is not shown any more" in prompt.turns[4].text


def test_what_was_before_the_stay_opens_the_conversation() -> None:
    older = OlderOutput(execution_id=CALLS[5], tool="crm.lookup", preview="gone…")
    prompt = render(
        asked(
            turn(7, calls=CALLS[:1]),
            log=({"type": "tool", "step": 1},),
            left_out=3,
            outputs=(output(CALLS[0], 7, "new"), output(CALLS[4], 2, "old")),
            older_outputs=(older,),
            older_count=1,
        )
    )
    opening = prompt.turns[0].text
    assert "## What happened before you took control" in opening and '{"type":"tool","step":1}' in opening
    assert "(3 earlier decisions of yours are left out.)" in opening
    assert '"gone…"' in opening and "## Tool outputs of earlier steps" in opening and "old" in opening
    assert opening.index("## User message") < opening.index("## What happened before")


def test_where_a_run_stands_is_the_tail_and_what_is_wanted_the_opening() -> None:
    run = {"goal": "Ship it", "progress": 0.5, "last_steps": [{"step": 1}]}
    prompt = render(asked(turn(1), run_kind="goal", run=run), None, DecisionKind.REPLAN)
    assert "## Goal\n" in prompt.turns[0].text and "Progress" not in prompt.turns[0].whole
    assert prompt.turns[-1].tail.startswith("# The run as it stands\n\n## Progress so far")
    assert prompt.turns[-1].tail.endswith("An action that was tried before is refused.")
    assert prompt.instructions == render(asked(run_kind="goal", run=run)).instructions


def said(*pairs: tuple[str, str]) -> list[EarlierTurn]:
    return [EarlierTurn(role=role, content=text) for role, text in pairs]


def test_turns_of_an_earlier_conversation_come_first_in_their_roles() -> None:
    before = said(("user", "Where is it?"), ("assistant", "Which one?"))
    prompt = render(asked(messages=before))
    assert [one.role for one in prompt.turns] == ["user", "model", "user"]
    assert prompt.turns[0].text.startswith("<<<user_message ") and prompt.turns[1].text == "Which one?"
    assert prompt.turns[2].text.startswith("# Context") and "Where is it?" not in prompt.turns[2].text
    assert render(asked(turn(1), messages=before)).text.startswith(prompt.text)


def test_what_is_left_out_of_a_conversation_is_told_where_it_stood() -> None:
    before = said(("user", "A"), ("assistant", "B"), ("user", "Y"), ("assistant", "Z"))
    prompt = render(asked(messages=before, messages_left_out=7, messages_summary="They talked."))
    assert [one.role for one in prompt.turns] == ["user", "model", "user", "model", "user"]
    told = prompt.turns[2].text
    assert told.startswith("(7 turns are left out here, in short:)\n<<<summary ")
    assert told.index("They talked.") < told.index("<<<user_message ") < told.index("\nY\n")
    assert (
        render(asked(messages=before, messages_left_out=7)).turns[2].text.startswith("(7 turns are left out here)\n\n")
    )


def test_roles_take_turns_whoever_begins_and_ends_a_conversation() -> None:
    prompt = render(asked(messages=said(("assistant", "Hello!"), ("user", "Hi."), ("user", "Are you there?"))))
    assert [one.role for one in prompt.turns] == ["user", "model", "user"]
    last = prompt.turns[-1].text
    assert last.index("Hi.") < last.index("Are you there?") < last.index("# Context")


def test_a_base_prompt_that_places_the_outputs_itself_is_asked_in_one_turn() -> None:
    prompt = render(
        asked(turn(1, calls=CALLS[:1]), base_prompt="{{ tool_history }}", outputs=(output(CALLS[0], 1, "ONCE"),))
    )
    assert len(prompt.turns) == 1 and prompt.text.count("ONCE") == 1


def test_the_digest_is_that_of_the_whole_prompt() -> None:
    first, second = render(asked()), render(asked(turn(1, RESPOND)))
    assert isinstance(first, Prompt) and first.digest != second.digest


def test_an_earlier_answer_without_words_is_no_empty_turn() -> None:
    turns = render(asked(messages=said(("user", "Hello."), ("assistant", " \n")))).turns
    assert [one.text for one in turns if one.role == "model"] == ["(nothing)"]
