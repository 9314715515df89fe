"""Goals of agents of a plan, and of members that a team's lead asks: acceptance criteria make a goal run of them.

It works until what happened meets them. A criterion that can't be evaluated is a fault of the plan, or of the call: it
would only be unmet, step after step.
"""

from collections.abc import Iterable, Iterator

from towpath_contracts.base import with_defaults
from towpath_contracts.networks.goal import Criterion, GoalSettings, GoalTask
from towpath_contracts.networks.plan import Plan
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.problems.registry import ProblemDetail
from towpath_engine.expressions.costs import MAX_SEARCHES
from towpath_engine.expressions.criterion import fault_of, names_in, search_work
from towpath_engine.state.run import RunState

GOAL_CHARS = 16_384
"""Of what an agent is asked, so much is its goal; all of it is its message."""

UNSAID = "Meet the acceptance criteria."
"""The goal of an agent that is asked nothing, where what its prompt refers to is empty."""

EXPRESSION_CHARS = 8_192
"""Characters of all expressions of a goal, or of a plan: compiling them takes a quarter of a second at most."""

DELEGATE_EXPRESSION_CHARS = 2_048
"""The same of what a lead asks a member for, which is compiled while the facts of other runs wait."""

_TOO_MANY_SEARCHES = (
    "the patterns of the criteria take too long together: begin them with ^, and leave out large counts such as {200}, "
    "above all of \\w and \\pL"
)


def goal_of(state: RunState, criteria: tuple[Criterion, ...], asked: str) -> GoalTask | None:
    """Return the goal of an agent that is asked *asked*; None without criteria.

    Its settings are those of the goal of the run that asks, but for the steps, else the network's. The script of a run
    brings its judgements along, whatever the network's judge is.
    """
    if not criteria:
        return None
    settings = goal_settings_of(state.snapshot.goal)
    if state.created.goal is not None:
        settings = goal_settings_of(state.created.goal_settings).model_copy(update={"max_steps": settings.max_steps})
    elif state.created.script_digest is not None:
        settings = settings.model_copy(update={"judge_model": None})
    return GoalTask(goal=asked[:GOAL_CHARS] or UNSAID, acceptance_criteria=criteria, settings=settings)


def goal_settings_of(*given: GoalSettings | None) -> GoalSettings:
    """Return the settings that a goal run begins with: what the last of *given* chose, else the defaults.

    They say whether words count, and judgements without evidence, which logs of earlier runs leave open.
    """
    settings = with_defaults(GoalSettings, *given)
    words, needed = bool(settings.allow_words), settings.require_evidence
    known = {"allow_words": words, "require_evidence": not words if needed is None else needed}
    return settings.model_copy(update=known)


def goal_faults(plan: Plan, snapshot: NetworkSnapshot) -> Iterator[ProblemDetail]:
    """Name what is wrong with the criteria of a plan, each at its place in it."""
    swarms = snapshot.swarm.swarms if snapshot.swarm is not None else {}
    criteria = (criterion for step in plan.steps for call in step.calls for criterion in call.acceptance_criteria)
    chars = sum(map(len, expressions_of(criteria)))
    if chars > EXPRESSION_CHARS:
        detail = f"the criteria have {chars} characters of expressions together; the limit is {EXPRESSION_CHARS}"
        yield ProblemDetail(pointer="/steps", code="request_too_large", detail=detail)
        return
    for number, step in enumerate(plan.steps):
        for place, call in enumerate(step.calls):
            at = f"/steps/{number}/" + ("agent" if step.type == "agent" else f"parallel/steps/{place}")
            swarm = swarms.get(call.agent_key) if call.agent_key not in snapshot.agents else None
            for place_in_call, fault in _faults_of_call(call.agent_key, call.acceptance_criteria, swarm, snapshot):
                yield _fault(f"{at}/{place_in_call}", fault)


def delegate_faults(
    name: str, criteria: tuple[Criterion, ...], nested: CompiledSwarm | None, snapshot: NetworkSnapshot
) -> list[str]:
    """Say what is wrong with the criteria by which the member *name* is asked; *nested* is the swarm that it is."""
    chars = sum(map(len, expressions_of(criteria)))
    if chars > DELEGATE_EXPRESSION_CHARS:
        return [f"the criteria have {chars} characters of expressions; the limit is {DELEGATE_EXPRESSION_CHARS}"]
    return [f"{at}: {fault}" for at, fault in _faults_of_call(name, criteria, nested, snapshot)]


def _faults_of_call(
    name: str, criteria: tuple[Criterion, ...], swarm: CompiledSwarm | None, snapshot: NetworkSnapshot
) -> Iterator[tuple[str, str]]:
    if criteria and swarm is not None and swarm.mode != "team":
        yield "acceptance_criteria", f"{name} is a swarm ({swarm.mode}): only a team pursues a goal"
    for index, fault in criteria_faults(criteria, snapshot):
        yield f"acceptance_criteria/{index}/when", fault


def expressions_of(criteria: Iterable[Criterion]) -> list[str]:
    """Return those of *criteria* that are expressions."""
    return [criterion.when for criterion in criteria if criterion.when is not None]


def criteria_faults(criteria: Iterable[Criterion], snapshot: NetworkSnapshot) -> Iterator[tuple[int, str]]:
    """Say which of *criteria* can't be met on this network, or take too long together, and why."""
    left = MAX_SEARCHES
    for number, criterion in enumerate(criteria):
        fault = _criterion_fault(criterion, snapshot)
        if not fault and criterion.when is not None:
            left -= search_work(criterion.when)
            fault = _TOO_MANY_SEARCHES if left < 0 else ""
        if fault:
            yield number, fault


def _criterion_fault(criterion: Criterion, snapshot: NetworkSnapshot) -> str:
    if criterion.when is None:
        return ""
    fault = fault_of(criterion.when)
    if fault or names_in(criterion.when) != {"tests"}:
        return fault
    if any(spec.reports == "tests" for spec in snapshot.tools.values()):
        return ""
    return "no tool of the network reports tests: declare one with reports: tests"


def _fault(pointer: str, detail: str) -> ProblemDetail:
    return ProblemDetail(pointer=pointer, code="criterion_invalid", detail=f"{pointer[1:]}: {detail}")
