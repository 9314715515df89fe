"""The state of a plan or workflow: how far it is and what came of its steps; and the state of a swarm.

Bounded like the rest of the state: large results are kept as references (`reducers.references`).
"""

from dataclasses import dataclass, field

from towpath_contracts.base import JsonObject
from towpath_contracts.events.plan_events import PlanState
from towpath_contracts.networks.plan import Plan, PlanStepResult


@dataclass(frozen=True, kw_only=True)
class PlanRunState:
    """The part of a run's state that plans and workflows have: plan, step under way, results of the others.

    `at` is the step that was begun last, `inputs` what its agents are asked, in their order.

    `began_ms` is the run's active time at which the step began, `results` are the answers by their keys. `attempts`
    counts how often a plan was asked for, or taken. `error` is the last one that was reported to the state machine.
    """

    phase: PlanState = "plan_init"
    plan: Plan | None = None
    origin: str = ""
    at: int = -1
    inputs: tuple[str, ...] = ()
    reports: tuple[PlanStepResult, ...] = ()
    results: JsonObject = field(default_factory=dict)
    began_ms: int = 0
    attempts: int = 0
    error: JsonObject | None = None


@dataclass(frozen=True, kw_only=True)
class HandoffState:
    """The part of a run's state that swarms have: handoffs, and what the agents of a handoff wrote.

    `handoffs` counts them in this run; `began_step` is the last step before the current agent took over.

    `turns` are what the agents of a handoff wrote and did, the oldest first, as far as there is room; `sizes` are their
    bytes, `left_out` counts those that had to go, `thought` is the reasoning of the decision under way (`conversing`).
    """

    handoffs: int = 0
    began_step: int = 0
    turns: tuple[JsonObject, ...] = ()
    sizes: tuple[int, ...] = ()
    left_out: int = 0
    thought: str = ""
