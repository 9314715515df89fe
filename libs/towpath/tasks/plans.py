"""Plans in Python: agents in sequence and in parallel, with results that later steps refer to.

A builder only builds, and says at once what is wrong with a step, in the words that the platform would use. Which
agents there are only the platform knows, unless `check` is given their names.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from towpath.declared_places import checks_call
from towpath.errors import DeclarationError, RefusedError
from towpath.tools.declaration import seconds
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.plan import Merge, PlanRunResult
from towpath_contracts.networks.plan_checks import PLAN_INVALID, check_plan
from towpath_contracts.networks.references import BINDINGS, split_text, texts_in
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemDetail, problem
from towpath_contracts.runs.views import RunView


class PlanRun(RunView):
    """A run that carried out a plan; `output` says what became of its steps, None where no plan was ever made."""

    output: PlanRunResult | None = None


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan that is being written; every method returns a new one, so a beginning can be shared.

    Give it to `client.run(network, plan=…)`. *bindings* are values for `{{ bindings.NAME }}`.
    """

    name: str = ""
    description: str = field(default="", kw_only=True)
    bindings: JsonObject = field(default_factory=dict, kw_only=True)
    steps: tuple[JsonObject, ...] = field(default=(), kw_only=True)
    max_parallel: int | None = field(default=None, kw_only=True)
    timeout: str | float | None = field(default=None, kw_only=True)

    def step(
        self,
        agent: str,
        prompt: str = "",
        *,
        with_: JsonObject | None = None,
        bind: str = "",
        timeout: str | float | None = None,
        criteria: Collection[str] = (),
        id: str = "",  # noqa: A002 - the plan's own word
        name: str = "",
    ) -> "PlanDraft":
        """Add a step in which *agent* works alone; its answer is `{{ result.BIND }}`, else `{{ result.ID }}`.

        *with_* is given to the agent, its texts may hold references. *timeout* is seconds, or text such as "5m". With
        *criteria* it works in a goal run, until what happened meets all of them.
        Raises DeclarationError with every fault of the step.
        """
        agent_call = call(agent, prompt, with_=with_, bind=bind, criteria=criteria)
        return self._with({"type": "agent", "agent": agent_call}, id, name, timeout)

    def parallel(
        self,
        *calls: JsonObject,
        merge: Merge = "collect",
        max_concurrency: int | None = None,
        timeout: str | float | None = None,
        id: str = "",  # noqa: A002 - the plan's own word
        name: str = "",
    ) -> "PlanDraft":
        """Add a step whose agents (each a `call`) work at the same time, at most *max_concurrency* of them.

        *merge* is `collect` (wait for all), `fail_fast` (the first failure stops the others) or `first_success`.
        """
        block: JsonObject = {"steps": list(calls), "merge_strategy": merge}
        if max_concurrency is not None:
            block["max_concurrency"] = max_concurrency
        return self._with({"type": "parallel", "parallel": block}, id, name, timeout)

    def given(self, **bindings: object) -> "PlanDraft":
        """Return the plan with more values for `{{ bindings.NAME }}`; they go before those that it has."""
        return replace(self, bindings={**self.bindings, **bindings})

    def check(self, agents: Collection[str] | None = None) -> None:
        """Raise RefusedError `plan_invalid` with every fault of the plan; *agents* are the names that it may ask."""
        if found := self._faults(agents, self.bindings):
            raise RefusedError(refusal(found))

    def to_json(self) -> JsonObject:
        """Return the task's `plan`; raises RefusedError `plan_invalid` with every fault of it."""
        self.check()
        limits = {"max_parallel": self.max_parallel, "timeout_ms": _milliseconds(self.timeout)}
        given = {name: value for name, value in limits.items() if value is not None}
        return {"plan": self._plan(), **({"bindings": self.bindings} if self.bindings else {}), **given}

    def _plan(self) -> JsonObject:
        texts = {"name": self.name, "description": self.description}
        return {**{name: text for name, text in texts.items() if text}, "steps": copy.deepcopy(list(self.steps))}

    def _with(self, step: JsonObject, step_id: str, name: str, timeout: str | float | None) -> "PlanDraft":
        more: JsonObject = {"id": step_id, "name": name, "timeout_ms": _milliseconds(timeout)}
        written = {**{name: value for name, value in more.items() if value not in ("", None)}, **step}
        draft = replace(self, steps=(*self.steps, written))
        if found := draft._faults(None, _bindings_in(draft.steps)):
            raise DeclarationError("; ".join(one.detail for one in found))
        return draft

    def _faults(self, agents: Collection[str] | None, bindings: Collection[str]) -> list[ProblemDetail]:
        known = _named_agents(self.steps) if agents is None else agents
        _checked, found = check_plan(self._plan(), agents=known, bindings=bindings)
        return found


def plan(name: str = "", /, **bindings: object) -> PlanDraft:
    """Begin a plan: `plan("digest").step("finder", "Find …", bind="facts").step("writer", with_={…})`.

    *bindings* are values for `{{ bindings.NAME }}`.
    """
    return PlanDraft(name, bindings=bindings)


@checks_call
def call(
    agent: str,
    prompt: str = "",
    *,
    with_: JsonObject | None = None,
    bind: str = "",
    timeout: str | float | None = None,
    criteria: Collection[str] = (),
) -> JsonObject:
    """Return one agent of a parallel step, with words as in `PlanDraft.step`."""
    more: JsonObject = {
        "prompt": prompt,
        "with": with_,
        "result_key": bind,
        "timeout_ms": _milliseconds(timeout),
    }
    more["acceptance_criteria"] = [{"when": one} for one in criteria] or None
    return {"agent_key": agent, **{name: value for name, value in more.items() if value not in ("", None)}}


def plan_json(given: Any) -> Any:
    """Return what a task says as its plan: a draft as JSON, a sentence as what a model is to plan, else as it is."""
    if isinstance(given, PlanDraft):
        return given.to_json()
    if isinstance(given, str):
        return {"prompt": given}
    return {"plan": given} if isinstance(given, Mapping) and "steps" in given else given


def plan_run(view: RunView) -> PlanRun:
    """Return the run with what became of its steps."""
    values = {name: getattr(view, name) for name in RunView.model_fields}
    return PlanRun.model_construct(**values, output=output_of(view))


def output_of(view: RunView) -> PlanRunResult | None:
    """Return what became of a plan's steps, also of one that failed; None where the run's end says nothing of it."""
    if view.final is None or "steps" not in view.final:
        return None
    try:
        return PlanRunResult.model_validate(view.final)
    except ValidationError:
        return None  # the answer of another kind of run


def refusal(found: list[ProblemDetail]) -> Any:
    """Return every fault of a plan as one problem, like the platform's."""
    return problem(PLAN_INVALID, tell_faults(found), errors=tuple(found))


def _milliseconds(timeout: str | float | None) -> int | None:
    return None if timeout is None else round(seconds(timeout, "timeout") * 1_000)


def _calls(steps: tuple[JsonObject, ...]) -> list[Any]:
    alone = [step["agent"] for step in steps if "agent" in step]
    return alone + [one for step in steps if "parallel" in step for one in step["parallel"]["steps"]]


def _named_agents(steps: tuple[JsonObject, ...]) -> set[str]:
    """Return the agents that *steps* name: what else there is, only the platform knows."""
    named = (one.get("agent_key") for one in _calls(steps) if isinstance(one, dict))
    return {name for name in named if isinstance(name, str)}


def _bindings_in(steps: tuple[JsonObject, ...]) -> set[str]:
    """Return the bindings that *steps* refer to: their values may still be given."""
    found = (piece.reference for step in steps for text in texts_in(step) for piece in split_text(text))
    return {one.path.lstrip(".").split(".")[0].split("[")[0] for one in found if one and one.root == BINDINGS}
