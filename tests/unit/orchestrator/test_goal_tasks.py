"""Tasks with a goal whose criteria would take long are refused at the door, before any of them is compiled or run."""

from tests.support.engine.plan_machine import NETWORK

from towpath_contracts.networks.goal import GoalTask
from towpath_orchestrator.core.task_kinds import EXPRESSION_CHARS, goal_problems


def goal(*criteria: str) -> GoalTask:
    return GoalTask.model_validate({"goal": "Go.", "acceptance_criteria": [{"when": one} for one in criteria]})


def refused(*criteria: str) -> list[tuple[str, str]]:
    return [(one.pointer, one.code) for one in goal_problems(goal(*criteria), NETWORK)]


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
