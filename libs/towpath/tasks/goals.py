"""Goals in Python: what a run is to reach, and how the platform finds out.

A builder only builds. Whether a criterion can be evaluated is checked by the platform that takes the task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.declared_places import checks_keywords
from towpath_contracts.base import JsonObject


@checks_keywords
@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for `run(network, goal=Goal("Make the tests pass.", criteria=["tests.failed == 0"]))`.

    `criteria` are CEL expressions over artifacts, tests, workspace, last_output, results and claimed; `texts` are
    criteria in words that a model judges, by evidence of the run. `settings` are the fields of GoalSettings:
    `autonomy`, `step_attempts`, `confidence_every`, `confidence_threshold`, `validate_steps`, `specialists`,
    `max_steps`, `allow_words`, `require_evidence`, `judge_model`.
    """

    goal: str
    criteria: Sequence[str] = field(default=(), kw_only=True)
    texts: Sequence[str] = field(default=(), kw_only=True)
    constraints: JsonObject = field(default_factory=dict, kw_only=True)
    settings: JsonObject = field(default_factory=dict, kw_only=True)

    def to_json(self) -> JsonObject:
        """Return the goal as SubmitTask writes it."""
        criteria = [*({"when": one} for one in self.criteria), *({"text": one} for one in self.texts)]
        written: JsonObject = {"goal": self.goal, "acceptance_criteria": criteria, "constraints": self.constraints}
        return {**written, "settings": self.settings} if self.settings else written


def goal_json(given: Any) -> Any:
    """Return what a task says as its goal: a Goal or a plain sentence as JSON, everything else as it is."""
    if isinstance(given, Goal):
        return given.to_json()
    return {"goal": given} if isinstance(given, str) else given
