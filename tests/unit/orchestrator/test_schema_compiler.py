"""What takes long to be compiled of a task is refused, or compiled in a thread: a schema once for all that have it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.engine.plan_machine import NETWORK

from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tasks import SubmitTask
from towpath_engine.rules.plan_goals import EXPRESSION_CHARS
from towpath_orchestrator.app.api.schema_compiler import MAX_AT_ONCE, MAX_REMEMBERED, SchemaCompiler
from towpath_orchestrator.core.task_kinds import goal_problems


class Threads:
    """Counts what is computed, and waits with it."""

    def __init__(self) -> None:
        self.go, self.computed, self.full = asyncio.Event(), 0, False

    async def run(self, _project: str, compute: Callable[[], Any]) -> Any:
        self.computed += 1
        await self.go.wait()
        if self.full:
            raise ProblemError(problem("overloaded", "too many wait"))
        return compute()


def schema(number: int = 0, properties: int = MAX_AT_ONCE) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{number}_{place}": {} for place in range(properties)}}


async def test_a_burst_of_equal_schemas_is_one_computation_and_a_later_one_none() -> None:
    threads: Any = Threads()
    compiler = SchemaCompiler(threads)
    waiting = [asyncio.create_task(compiler.prepare("p", schema())) for _ in range(32)]
    await asyncio.sleep(0)
    threads.go.set()
    await asyncio.gather(*waiting)
    await compiler.prepare("q", schema())
    assert threads.computed == 1


async def test_small_schemas_take_no_thread() -> None:
    threads: Any = Threads()
    for one in (None, schema(properties=MAX_AT_ONCE - 3)):
        await SchemaCompiler(threads).prepare("p", one)
    assert threads.computed == 0


async def test_what_found_no_turn_is_tried_anew_and_a_caller_who_leaves_ends_nothing() -> None:
    threads: Any = Threads()
    compiler = SchemaCompiler(threads)
    threads.full = True
    threads.go.set()
    with pytest.raises(ProblemError, match="overloaded"):
        await compiler.prepare("p", schema())
    threads.full = False
    threads.go.clear()
    leaving, staying = (asyncio.create_task(compiler.prepare("p", schema())) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    threads.go.set()
    await staying
    assert threads.computed == 2


async def test_so_many_are_remembered() -> None:
    threads: Any = Threads()
    threads.go.set()
    compiler = SchemaCompiler(threads)
    for number in range(MAX_REMEMBERED + 1):
        await compiler.prepare("p", schema(number))
    await compiler.prepare("p", schema(MAX_REMEMBERED))
    assert threads.computed == MAX_REMEMBERED + 1
    await compiler.prepare("p", schema(0))
    assert threads.computed == MAX_REMEMBERED + 2


def _goal(*criteria: str) -> GoalTask:
    return GoalTask.model_validate({"goal": "Go.", "acceptance_criteria": [{"when": one} for one in criteria]})


def _task(*criteria: str, in_plan: bool = False) -> SubmitTask:
    goal = _goal(*criteria)
    if not in_plan:
        return SubmitTask(network="n", goal=goal)
    calls = [{"agent_key": "a", "prompt": "Go.", "acceptance_criteria": [{"when": one}]} for one in criteria]
    step = {"type": "parallel", "parallel": {"steps": calls}}
    return SubmitTask(network="n", plan=PlanTask(plan={"steps": [step]}))


async def test_long_criteria_are_compiled_in_a_thread_and_short_ones_are_not() -> None:
    threads: Any = Threads()
    threads.go.set()
    plain = SubmitTask(network="n", user_message="Go.")
    for given in (plain, _task("claimed == 1"), _task(*["claimed == 2" + " " * 1_000] * 9)):
        await SchemaCompiler(threads).prepare_criteria("p", given)
    assert threads.computed == 0
    for number, in_plan in enumerate((False, True), 1):
        long = [f"claimed == {number} || claimed == 4"] * 9
        await SchemaCompiler(threads).prepare_criteria("p", _task(*long, in_plan=in_plan))
        assert threads.computed == number


async def test_what_stands_where_a_plan_has_no_criteria_keeps_none_from_being_compiled_in_a_thread() -> None:
    """Such fields of a plan are let be: what is counted with them would seem too long to be compiled at all."""
    threads: Any = Threads()
    threads.go.set()
    given = _task(*["claimed == 7 || claimed == 8"] * 9, in_plan=True)
    assert given.plan is not None and given.plan.plan is not None
    elsewhere = {
        "acceptance_criteria": [{"when": "x" * 9_000}],
        "agent": {"acceptance_criteria": [{"when": "x" * 9_000}]},
    }
    plan = given.plan.model_copy(update={"plan": {**given.plan.plan, **elsewhere}})
    await SchemaCompiler(threads).prepare_criteria("p", given.model_copy(update={"plan": plan}))
    assert threads.computed == 1


def refused(*criteria: str) -> list[tuple[str, str]]:
    return [(one.pointer, one.code) for one in goal_problems(_goal(*criteria), NETWORK)]


def test_the_patterns_of_all_criteria_together_are_bounded() -> None:
    usual = [f"last_output.text.matches('^done {place} [0-9]{{4}}$')" for place in range(64)]
    assert refused(*usual) == []
    costly = [rf"last_output.text.matches('\\pL{{20}}{place}')" for place in range(4)]
    assert refused(*costly) == [
        ("/goal/acceptance_criteria/2/when", "criterion_invalid"),
        ("/goal/acceptance_criteria/3/when", "criterion_invalid"),
    ]


def test_the_characters_of_all_expressions_together_are_bounded_whatever_they_are() -> None:
    long = f"claimed == '{'x' * (EXPRESSION_CHARS // 16)}' ((("
    assert refused(*[long] * 16) == [("/goal/acceptance_criteria", "request_too_large")]
