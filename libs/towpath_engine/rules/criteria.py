"""Acceptance criteria: their input, which of them are met, and whether the goal is reached.

The platform looks at what happened. A model's answer counts for criteria that are plain text, and only where it was
asked about them in this very step and names what shows it. Its own "done" counts for none.
"""

from collections.abc import Sequence
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.goal import Criterion
from towpath_engine.expressions.costs import ValueSize, size_of
from towpath_engine.expressions.criterion import CompiledCriterion, compile_criterion
from towpath_engine.rules.criteria_input import shorten
from towpath_engine.rules.evidence import evidence_search, is_shown
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState, StepChild

MAX_WORK = 100_000.0
"""Work of all criteria of one validation, in about microseconds: estimated from the sizes of what they see, not from a
clock. The facts of other runs wait meanwhile, so what comes on top counts as not met."""

DONE = 1.0
"""The progress at which a goal without criteria is reached."""


def criteria_of(state: RunState) -> tuple[Criterion, ...]:
    """Return the acceptance criteria of a goal run; none for any other."""
    goal = state.created.goal
    return () if goal is None else goal.acceptance_criteria


def has_texts(state: RunState) -> bool:
    """Return whether a criterion is a text that a model has to judge."""
    return any(criterion.text is not None for criterion in criteria_of(state))


def successful_specialists(state: RunState) -> list[StepChild]:
    """Return the specialists that did in this step what the acting agent may not."""
    return [child for child in state.children if child.step == state.step and child.did_subject]


def criteria_input(state: RunState, goal: GoalState) -> JsonObject:
    """Return what an expression sees.

    `artifacts` by name; `tests`, the last report (empty where no test ran); `workspace.files` by path; `last_output`;
    `results` of the last action's calls; `claimed`, the answer of a model that claims to be done, or null. Of long ones
    the beginning is seen (`towpath_engine.rules.criteria_input`): 16,384 characters, 1,024 values, 256 items of a list.
    """
    files = {} if state.desk is None else state.desk.files
    return {
        "artifacts": {str(one["name"]): one for one in goal.artifacts},
        "tests": goal.tests or {},
        "workspace": {"files": {path: {"size": file.size, "digest": file.digest} for path, file in files.items()}},
        "last_output": shorten(state.last_output),
        "results": [{**one, "result": shorten(one["result"])} for one in goal.results],
        "claimed": shorten(goal.claimed),
    }


def met_now(state: RunState, goal: GoalState, judged: JsonObject | None = None) -> tuple[int, ...]:
    """Return the numbers of the criteria that are met; *judged* is the answer of a model to a validation, if any."""
    criteria = criteria_of(state)
    if not criteria:
        return ()
    scene = criteria_input(state, goal)
    by_model = set(goal.met) if judged is None else _found(judged) - set(unshown(state, goal, judged))
    shown, left = may_be_judged(state, goal), _EvaluationBudget(scene)
    return tuple(n for n, one in enumerate(criteria) if _is_met(one, scene, left, judged_met=shown and n in by_model))


def may_be_judged(state: RunState, goal: GoalState) -> bool:
    """Return whether a model's judgement may count: only where something was done, unless the goal is one of words.

    It is the same kind of model that claims to be done, and it has nothing but its words to look at.
    """
    return goal.acted or state.created.goal_settings.allow_words is not False


def _is_met(criterion: Criterion, scene: JsonObject, left: "_EvaluationBudget", *, judged_met: bool) -> bool:
    if criterion.when is None:
        return judged_met
    compiled = compile_criterion(criterion.when)
    return left.spend(compiled) and compiled.met(scene)


class _EvaluationBudget:
    """What the criteria of one validation may still cost."""

    def __init__(self, scene: JsonObject) -> None:
        self._left = MAX_WORK
        self._scene = scene
        self._sizes: dict[str, ValueSize] = {}

    def spend(self, criterion: CompiledCriterion) -> bool:
        """Return whether *criterion* may be evaluated, and count it if so."""
        for name in criterion.names - self._sizes.keys():
            self._sizes[name] = size_of(self._scene[name])
        work = criterion.work.estimate(self._sizes)
        if work > self._left:
            return False
        self._left -= work
        return True


def _found(judged: JsonObject) -> set[int]:
    """Return what a valid step's judge found met; a step that is not valid shows nothing."""
    found: list[JsonObject] = judged["criteria"] if judged["valid"] else []
    return {one["criterion"] for one in found if one["met"]}


def unshown(state: RunState, goal: GoalState, judged: JsonObject) -> tuple[int, ...]:
    """Return the numbers of the texts that a judge finds met and names no evidence for."""
    found, criteria = _found(judged), criteria_of(state)
    said = {one["criterion"]: one["evidence"] for one in judged["criteria"] if one["met"]}
    texts = [n for n, one in enumerate(criteria) if n in found and one.when is None]
    search = evidence_search(state, goal) if texts else None
    return tuple(n for n in texts if not is_shown(search, said[n]))


def describe_unmet(state: RunState, met: tuple[int, ...]) -> str:
    """Name the criteria that are not met, by number and in words."""
    return describe_criteria(state, [n for n in range(len(criteria_of(state))) if n not in met])


def describe_criteria(state: RunState, numbers: Sequence[int]) -> str:
    """Name these criteria, by number and in words."""
    criteria = criteria_of(state)
    return "; ".join(f"{n} ({criteria[n].name or criteria[n].words()})" for n in numbers)


def reached(state: RunState) -> bool:
    """Return whether the goal is reached after this step: every criterion is met, or the progress is complete."""
    goal, criteria = state.goal, criteria_of(state)
    if goal is None:
        return False
    if not criteria:
        judged = goal.progress_source == "model"
        return goal.progress_source != "none" and goal.progress >= DONE and (not judged or may_be_judged(state, goal))
    fresh = not has_texts(state) or goal.judged_step == state.step
    return fresh and goal.validated_step == state.step and len(goal.met) == len(criteria)


def shown_criteria(state: RunState, goal: GoalState) -> list[JsonObject]:
    """Return the criteria as prompts, gates and answers show them."""
    criteria = enumerate(criteria_of(state))
    return [{"number": n, "criterion": one.words(), "met": n in goal.met} for n, one in criteria]


def final_of(state: RunState, goal: GoalState) -> dict[str, Any]:
    """Return the answer of a run whose goal is reached: the model's own, or what was reached without one."""
    if goal.claimed is not None:
        return goal.claimed
    return {
        "goal": "reached",
        "criteria": shown_criteria(state, goal),
        "progress": goal.progress,
        "last_output": state.last_output,
    }
