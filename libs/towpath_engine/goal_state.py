"""What a goal run remembers beside the rest of its state (features C1-C8).

Law: bounded. The whole history of steps is in the log; here is what the next step depends on.
"""

from dataclasses import dataclass

from towpath_contracts.base import JsonObject

STEPS_KEPT = 5
"""Last steps shown to assessments (feature C8: the last five)."""

SIGNATURES_KEPT = 10
"""Signatures of actions that were tried in this step: each attempt must be another one (feature C4)."""


@dataclass(frozen=True, kw_only=True)
class GoalState:
    """`attempt` counts the actions of the current step from 1; `met` are the numbers of the criteria that are met.

    `claimed` is the answer of a model that says it is done, until the criteria have been looked at; `best_tests` is
    the last test report with its metrics, `artifacts` name → short description of what was made.
    """

    attempt: int = 1
    tried: tuple[str, ...] = ()
    met: tuple[int, ...] = ()
    claimed: JsonObject | None = None
    failures: int = 0
    consecutive_failures: int = 0
    progress: float = 0.0
    progress_source: str = "none"
    progress_metrics: JsonObject | None = None
    tests: JsonObject | None = None
    artifacts: tuple[JsonObject, ...] = ()
    confidence: float | None = None
    confidence_step: int = 0
    wants_confidence: str = ""
    last_steps: tuple[JsonObject, ...] = ()
    step_error: str = ""
