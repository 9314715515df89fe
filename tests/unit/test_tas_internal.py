"""Calls of the platform's own tools in the ledger: permitted, applied by the run, closed by its word (design §7)."""

import json
from typing import Any

import pytest
from tests.support.tas_calls import RUN, ask, outcome, request, ruling

from towpath_contracts.facts import ToolFinished, ToolPermitted, fact_adapter
from towpath_contracts.internal_tools import INTERNAL_TOOLS, PLATFORM_TOOLSET
from towpath_contracts.problems import ProblemError
from towpath_contracts.run_calls import RecordOutcome
from towpath_contracts.tools import CallStatus, EffectClass, RegisterTools, ToolFailure, ToolSpec
from towpath_tas.app.tools import _check
from towpath_tas.core.call import Call, Dispatch
from towpath_tas.core.facts import reported
from towpath_tas.core.internal import BUILT_IN, is_internal, on_recorded, permitted
from towpath_tas.core.ledger import void

PLAN = next(one for one in BUILT_IN if one.spec.name == "plan_setup")
ALLOWED = ruling(tool=PLAN, effect_class=EffectClass.IDEMPOTENT)


def permitted_call(**changes: Any) -> Call:
    step = ask(None, request(tool="plan_setup", toolset=PLATFORM_TOOLSET), ALLOWED)
    assert step.call is not None and isinstance(step.effects[0], Dispatch)
    return step.call.changed(**changes) if changes else step.call


def told(call: Call, status: str = "succeeded", **more: Any) -> RecordOutcome:
    body = {"run_id": RUN, "project": "default", "execution_id": call.execution_id, "tool": "plan_setup", **more}
    return RecordOutcome.model_validate({"status": status, "result": {"plan_status": "active"}, **body})


def test_a_permitted_call_is_told_to_its_run_and_to_no_worker() -> None:
    call = permitted_call()
    assert is_internal(call) and call.status is CallStatus.PERMITTED
    fact = fact_adapter.validate_json(permitted(call))
    assert isinstance(fact, ToolPermitted) and fact.execution_id == call.execution_id and fact.contents == {}
    assert "contents" not in json.loads(permitted(call))


def test_the_word_of_the_run_closes_the_row_once() -> None:
    call = permitted_call()
    step, refused = on_recorded(call, told(call))
    assert not refused and step.call is not None and step.call.status is CallStatus.SUCCEEDED
    assert [(note.phase, note.verdict) for note in step.notes] == [("outcome", "succeeded")]
    again, refused = on_recorded(step.call, told(call))
    assert again.call is None and not refused, "its confirmation was lost"
    failure = ToolFailure(code="plan_missing", message="none")
    failed, _ = on_recorded(call, told(call, "failed", failure=failure))
    assert failed.call is not None and failed.call.status is CallStatus.FAILED


def test_what_was_applied_counts_although_a_fence_came_between() -> None:
    voided = void(permitted_call()).call
    assert voided is not None and voided.status is CallStatus.VOID
    step, refused = on_recorded(voided, told(voided))
    assert not refused and step.call is not None and step.call.status is CallStatus.SUCCEEDED


@pytest.mark.parametrize(
    "changes", [{"status": CallStatus.DENIED}, {"status": CallStatus.AWAITING_APPROVAL}, {"toolset": "orders"}]
)
def test_what_was_never_permitted_or_is_a_workers_is_not_closed(changes: dict[str, Any]) -> None:
    call = permitted_call(**changes)
    step, refused = on_recorded(call, told(call))
    assert step.call is None and refused
    assert on_recorded(None, told(call))[1]
    other = told(call).model_copy(update={"project": "another"})
    assert on_recorded(permitted_call(), other)[1]


def test_no_worker_may_offer_what_looks_like_a_tool_of_the_platform() -> None:
    mine = ToolSpec(name="mine", toolset="mine")
    for spec in (
        INTERNAL_TOOLS["plan_setup"].model_copy(update={"toolset": "mine"}),
        mine.model_copy(update={"internal": True}),
        mine.model_copy(update={"toolset": PLATFORM_TOOLSET}),
    ):
        with pytest.raises(ProblemError) as refused:
            _check(RegisterTools(toolset=spec.toolset, worker="w", owner="o", tools=(spec,)))
        assert refused.value.problem.errors[0].code == "tool_reserved"
    _check(RegisterTools(toolset="mine", worker="w", owner="o", tools=(mine,)))


def test_a_run_hears_why_changes_of_its_files_are_lost() -> None:
    call = permitted_call()
    said = outcome(call, changes_lost={"code": "workspace_full", "path": "big.txt"})
    fact = fact_adapter.validate_json(reported(call, said, None))
    assert isinstance(fact, ToolFinished) and fact.status == "succeeded"
    assert fact.changes_lost == said.changes_lost is not None
    assert "changes_lost" not in reported(call, outcome(call), None), "and nothing is said where nothing is lost"
