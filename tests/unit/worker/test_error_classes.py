"""Every class of error of a call is a result in its place, with a stable code and an honest advice."""

import asyncio

import pytest
from tests.support.engine.machine import Machine, use_all

from towpath.errors import ToolError
from towpath.tools.arguments import ArgumentsInvalidError
from towpath_contracts.events import log as ev
from towpath_worker.core.results import CallCutOffError, ResultRefusedError, failure_of

OWN = ToolError("quota_used_up", "no more today", retryable=True, hint="come tomorrow", external=True)

# What a call may end with: its code, whether the same call may help, whether the cause lies outside the agent's reach.
CLASSES: tuple[tuple[BaseException, str, bool, bool], ...] = (
    (OWN, "quota_used_up", True, True),
    (ToolError("not_for_sale"), "not_for_sale", False, False),
    (ArgumentsInvalidError("/n: an integer is wanted"), "invalid_arguments", False, False),
    (CallCutOffError("the tool did not end within 3 s"), "tool_timeout", True, True),
    (ResultRefusedError("result_invalid", "it is not JSON"), "result_invalid", False, False),
    (ResultRefusedError("result_too_large", "return less"), "result_too_large", False, False),
    (ConnectionRefusedError("nobody listens"), "tool_exception", False, True),
    (TimeoutError("the database did not answer"), "tool_exception", False, True),
    (PermissionError("read only"), "tool_exception", False, True),
    (ValueError("7 is no month"), "tool_exception", False, False),
    (KeyError("order"), "tool_exception", False, False),
    (RecursionError("too deep"), "tool_exception", False, False),
    (MemoryError(), "tool_exception", False, False),
    (SystemExit(3), "tool_exception", False, False),
    (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "tool_exception", False, False),
    (asyncio.InvalidStateError("twice"), "tool_exception", False, False),
)
NAMES = [f"{type(error).__name__}-{code}" for error, code, _, _ in CLASSES]


@pytest.mark.parametrize(("error", "code", "retryable", "external"), CLASSES, ids=NAMES)
def test_an_error_has_the_code_and_the_advice_of_its_class(
    error: BaseException, code: str, retryable: bool, external: bool
) -> None:
    failure = failure_of(error)
    assert (failure.code, failure.retryable, failure.external) == (code, retryable, external)
    assert failure.message
    assert not failure.uncertain
    assert "Traceback" not in failure.message
    if code == "tool_exception":
        assert failure.message.startswith(type(error).__name__)


def test_what_a_tool_says_of_its_own_error_is_kept() -> None:
    failure = failure_of(OWN)
    assert (failure.message, failure.hint) == ("no more today", "come tomorrow")


@pytest.mark.parametrize(("error", "code", "retryable", "external"), CLASSES, ids=NAMES)
def test_an_error_among_parallel_calls_is_a_result_in_its_place_and_the_run_goes_on(
    error: BaseException, code: str, retryable: bool, external: bool
) -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"}), ("echo", {"text": "c"})))
    failure = failure_of(error)
    machine.finish(2, result="last")
    machine.fail(1, code, failure.message, retryable=failure.retryable, hint=failure.hint, external=failure.external)
    machine.finish(0, result="first")
    assert [output.status for output in machine.context.outputs] == ["succeeded", "failed", "succeeded"]
    shown = machine.context.outputs[1].text
    assert code in shown
    assert machine.state.tool_errors == 1
    assert machine.state.last_output == "last"
    assert machine.events(ev.RunFinished) == []


def test_a_model_is_not_told_at_which_line_a_tool_raised() -> None:
    machine, same = Machine(), Machine()
    for one, place in ((machine, "orders.py:14"), (same, "")):
        one.decide(use_all(("echo", {"text": "a"})))
        one.fail(0, "tool_exception", "KeyError: 'order'", place=place)
    assert machine.context == same.context
    assert "orders.py" not in repr(machine.context)


def test_a_tool_that_nobody_has_is_a_refusal_that_names_it_and_nothing_of_its_turn_runs() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("ghost", {})))
    (refused,) = machine.events(ev.DecisionRefused)
    assert "ghost" in str(refused.model_dump())
    assert machine.state.calls == ()
    assert any("ghost" in line for line in machine.context.feedback)
    assert machine.events(ev.RunFinished) == []
