"""Words reach no goal: a model that judges what it said itself is not believed before something was done."""

from typing import Any
from uuid import UUID

import pytest
from tests.support.engine.goal_machine import PASSING, asked, goal_run
from tests.support.engine.machine import RUN, Machine, respond, use, use_all

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.rules.output_tools import StoredOutput, part_of_output

MET = {"valid": True, "criteria": [{"criterion": 0, "met": True, "evidence": "I said so"}]}


def claimed(*texts: str, answer: dict[str, Any], **settings: Any) -> Machine:
    """A run that answers in its first step and is judged by a model to be done."""
    machine = goal_run(texts=texts, **{"allow_words": False, **settings})
    machine.decide(respond("It is done."))
    assert asked(machine) == ("validate" if texts else "progress")
    machine.decide(answer)
    return machine


@pytest.mark.parametrize(("texts", "answer"), [(("The report is clear.",), MET), ((), {"progress": 1.0})])
def test_c1_a_goal_is_not_reached_by_a_first_answer_that_a_model_finds_good(
    texts: tuple[str, ...], answer: dict[str, Any]
) -> None:
    """Row C1: never single-shot."""
    machine = claimed(*texts, answer=answer)
    assert not machine.state.is_final
    refused = machine.events(ev.DecisionRefused)[-1]
    assert refused.code == "goal_not_reached" and "no call has succeeded in this run" in refused.feedback
    for decision in (use("edit"), respond("Now it is.")):
        if not machine.state.is_final:
            machine.decide(decision)
            if machine.state.calls and not machine.state.calls[-1].status:
                machine.finish()
            if asked(machine) != "decide":
                machine.decide(answer)
    assert machine.finished.status == "completed"


def test_a_call_that_failed_is_no_deed() -> None:
    machine = goal_run(texts=("It is clear.",), allow_words=False)
    machine.decide(use("edit"))
    machine.fail()
    assert machine.state.goal is not None and not machine.state.goal.acted


def test_reading_an_output_again_is_no_deed() -> None:
    machine = goal_run(texts=("It is clear.",), allow_words=False)
    args = {"execution_id": str(UUID(int=9))}
    part = part_of_output(
        "output_read", args, StoredOutput(tool="edit", step=1, status="failed", data=b"a long text"), 32_000
    )
    machine.decide(use_all(("output_read", args)))
    machine.feed(facts.InternalToolPermittedFact(run_id=RUN, execution_id=machine.call_id(0), output=part))
    assert machine.events(ev.ToolCallFinished)[-1].status == "succeeded"
    assert machine.state.goal is not None and not machine.state.goal.acted


def test_a_goal_of_words_may_be_reached_by_them() -> None:
    for texts, answer in ((("It rhymes.",), MET), ((), {"progress": 1.0})):
        assert claimed(*texts, answer=answer, allow_words=True).finished.status == "completed"


def test_what_an_expression_finds_needs_no_deed() -> None:
    machine = goal_run("claimed != null", allow_words=False)
    machine.decide(respond("done"))
    assert machine.finished.reason == "criteria_met"
    other = goal_run("tests.failed == 0", allow_words=False)
    other.decide(use("test"))
    other.finish(result=PASSING)
    assert other.finished.reason == "criteria_met"
