"""References in what the agents of a plan are asked."""

from typing import Any

import pytest

from towpath_contracts.networks.plan import PlanAgentCall
from towpath_contracts.networks.references import UndefinedReferenceError
from towpath_engine.rules.templates import MAX_INPUT, AgentInputTooLargeError, render_input

SCOPES = {
    "result": {
        "draft": {"message": "Hello {{ result.secret }}", "lines": ["one", {"two": 2}]},
        "plain": {"message": "just words"},
        "a.b": {"c": True},
        "secret": {"message": "s3cret"},
    },
    "bindings": {"who": "me", "limits": {"max": 3}, "none": None},
}


def asked(prompt: str = "", with_: Any = None) -> str:
    call = PlanAgentCall.model_validate({"agent_key": "ann", "prompt": prompt, "with": with_ or {}})
    return render_input(call, SCOPES, "otherwise")


def test_e4_results_and_bindings_are_filled_in_by_path() -> None:
    """Row E4: sequential steps with templates over earlier results (`with`)."""
    assert asked("{{ result.draft.lines[0] }} for {{bindings.who}}, {{ result.a.b.c }}") == "one for me, true"
    assert asked("{{ result.draft.lines[1].two }}") == "2"
    assert asked("Review: {{ result.plain }}") == "Review: just words", "a plain message is its text"
    assert asked("no {{ unclosed") == "no {{ unclosed"
    assert asked() == "otherwise"


def test_e4_a_with_keeps_the_type_of_a_whole_reference_and_stands_behind_the_prompt() -> None:
    with_ = {"limit": "{{ bindings.limits.max }}", "all": ["{{ result.a.b }}", "at most {{ bindings.limits.max }}"]}
    assert asked("Go.", with_) == 'Go.\n\n{"all":[{"c":true},"at most 3"],"limit":3}'
    assert asked("", {"x": "{{ bindings.none }}"}) == '{"x":null}'


def test_e4_what_an_agent_answered_is_never_read_for_references() -> None:
    assert asked("{{ result.draft.message }}") == "Hello {{ result.secret }}"
    assert "s3cret" not in asked("", {"m": "{{ result.draft.message }}", "n": "say {{ result.draft.message }}"})


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("{{ result.ghost }}", "result.ghost is not defined; result has: a.b, draft, plain, secret"),
        ("{{ result.draft.lines[7] }}", "result.draft.lines[7] is not defined"),
        ("{{ result.draft.lines.first }}", "there is no 'first'"),
        ("{{ bindings.who.name }}", "bindings.who.name is not defined"),
        ("{{ result }}", "is no reference"),
        ("{{ result['draft'] }}", "is no reference"),
        ("{{ result.draft | upper }}", "is no reference"),
        ("{{ result.__class__ }}", "result.__class__ is not defined"),
        ("{{ bindings.limits.__class__.mro() }}", "is not defined"),
    ],
)
def test_e4_an_undefined_reference_is_a_clear_failure(prompt: str, expected: str) -> None:
    """Row E4: undefined reference is a clear failure."""
    with pytest.raises(UndefinedReferenceError) as failed:
        asked(prompt)
    assert expected in str(failed.value)


def test_e4_however_often_something_is_referred_to_what_comes_out_is_bounded() -> None:
    scopes = {"result": {"big": {"t": "x" * 16_000}}, "bindings": {}}
    for call in (
        {"prompt": "{{ result.big }}" * 7},
        {"with": {str(n): "{{ result.big.t }}" for n in range(7)}},
        {"with": {"x": "y" * MAX_INPUT}},
    ):
        with pytest.raises(AgentInputTooLargeError, match="more than 100000 characters"):
            render_input(PlanAgentCall.model_validate({"agent_key": "ann", **call}), scopes, "")
    assert len(render_input(PlanAgentCall(agent_key="ann", prompt="{{ result.big.t }}" * 6), scopes, "")) == 96_000
