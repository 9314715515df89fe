"""The list of effects of a run says `did not happen` only where that is certain."""

from typing import Any

import pytest
from tests.support.engine.machine import Machine, types, use, use_all

from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolFailure
from towpath_readings.effects import EFFECT_EVENTS, effects_of

FOUR = use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"}), ("echo", {"text": "c"}), ("lookup", {"text": "d"}))


def outcomes_by_call(machine: Machine, *, only: tuple[str, ...] = EFFECT_EVENTS) -> list[tuple[str, str, str]]:
    events = [entry.event for entry in machine.entries if entry.event.type in only]
    return [(effect.tool, effect.outcome, effect.source) for effect in effects_of(events)]


def test_a_cancelled_run_lists_every_call_of_every_step_in_order() -> None:
    machine = Machine()
    machine.decide(use("echo", text="first"))
    machine.finish(result="done", worker="w1")
    machine.decide(FOUR)
    machine.deny(1)
    machine.cancel()
    machine.fenced(voided=[machine.call_id(0)], live=[machine.call_id(2), machine.call_id(3)])
    machine.finish(2, "late", worker="w2")
    assert outcomes_by_call(machine)[4] == ("lookup", "open", "")
    assert types(machine.finish(3, None, status="unknown", worker="w3"))[-1] == "run_finished"
    assert outcomes_by_call(machine) == [
        ("echo", "happened", "w1"),
        ("echo", "did_not_happen", "void"),
        ("lookup", "did_not_happen", "denied"),
        ("echo", "happened", "w2"),
        ("lookup", "unknown", "w3"),
    ]
    first = effects_of(entry.event for entry in machine.entries)[0]
    assert (first.step, first.call_index) == (1, 0)
    assert outcomes_by_call(machine, only=tuple({entry.event.type for entry in machine.entries})) == outcomes_by_call(
        machine
    )


def test_what_was_open_at_the_end_is_unknown_until_the_fence_says_more() -> None:
    machine = Machine()
    machine.decide(FOUR)
    machine.timer(after=300)
    assert {outcome for _, outcome, _ in outcomes_by_call(machine)} == {"unknown"}
    machine.fenced(voided=[machine.call_id(1)])
    assert [outcome for _, outcome, _ in outcomes_by_call(machine)] == [
        "unknown",
        "did_not_happen",
        "unknown",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("expected", "outcome", "source"),
    [
        ({"status": "succeeded", "probe": "happened", "worker": "w"}, "happened", "probe"),
        ({"status": "succeeded", "settled_by": "ann"}, "happened", "ann"),
        ({"status": "failed", "failure": {"code": "broken", "message": ""}, "worker": "w"}, "failed", "w"),
        ({"status": "failed", "failure": {"code": "not_started", "message": ""}}, "did_not_happen", ""),
        ({"status": "failed", "failure": {"code": "cancelled", "message": "", "began": False}}, "did_not_happen", ""),
        ({"status": "failed", "failure": {"code": "cancelled", "message": "", "began": True}}, "failed", ""),
        ({"status": "failed", "failure": {"code": "not_started", "message": "", "began": True}}, "failed", ""),
        (
            {"status": "failed", "failure": {"code": "dead_lettered", "message": "", "began": False}},
            "did_not_happen",
            "",
        ),
        ({"status": "failed", "failure": {"code": "dead_lettered", "message": ""}}, "failed", ""),
        ({"status": "failed", "failure": {"code": "not_started", "message": ""}, "worker": "w"}, "failed", "w"),
        ({"status": "failed", "failure": {"code": "cancelled", "message": "", "uncertain": True}}, "unknown", ""),
        ({"status": "failed", "failure": {"code": "tool_timeout", "message": "", "uncertain": True}}, "unknown", ""),
        (
            {"status": "failed", "failure": {"code": "did_not_happen", "message": ""}, "settled_by": "ann"},
            "did_not_happen",
            "ann",
        ),
        ({"status": "void"}, "did_not_happen", ""),
    ],
)
def test_an_outcome_is_reported_as_what_it_proves(expected: dict[str, Any], outcome: str, source: str) -> None:
    machine = Machine()
    machine.decide(use("echo", text="a"))
    if "failure" in expected:
        expected = {**expected, "failure": ToolFailure.model_validate(expected["failure"])}
    machine.finish(result=None, **expected)
    assert outcomes_by_call(machine) == [("echo", outcome, source)]


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        ({"status": "succeeded"}, "happened"),
        ({"status": "void"}, "did_not_happen"),
        ({"status": "failed", "failure": ToolFailure(code="x", message="", began=True)}, "failed"),
        ({"status": "failed", "failure": ToolFailure(code="not_started", message="", began=False)}, "did_not_happen"),
        ({"status": "failed", "failure": ToolFailure(code="x", message="", began=True, uncertain=True)}, "unknown"),
        ({"status": "unknown"}, "unknown"),
    ],
)
def test_the_end_of_a_run_says_of_its_last_calls_what_the_list_says(expected: dict[str, Any], outcome: str) -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.cancel()
    machine.fenced(live=[machine.call_id(0), machine.call_id(1)])
    machine.finish(0, **{"result": None, **expected})
    machine.finish(1)
    ended = [(effect["tool"], effect["outcome"]) for effect in machine.finished.effects]
    assert (
        ended
        == [(tool, word) for tool, word, _ in outcomes_by_call(machine)]
        == [("echo", outcome), ("lookup", "happened")]
    )


def test_what_was_recorded_before_anybody_recorded_what_began_ends_as_it_did() -> None:
    machine = Machine()
    machine.decide(FOUR)
    for index, more in enumerate(({}, {"uncertain": True}, {"code": "not_started"})):
        machine.fail(index, **more)
    machine.timer(after=400)
    assert [effect["outcome"] for effect in machine.finished.effects] == ["failed", "failed", "failed", "unknown"]


def test_an_empty_log_lists_nothing() -> None:
    assert effects_of([]) == ()
    assert effects_of([ev.RunStarted()]) == ()
