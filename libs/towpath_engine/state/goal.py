"""The state of a goal run beside the rest of its state.

Bounded: the whole history of steps is in the log; here is only what the next step depends on.
"""

from dataclasses import dataclass

from towpath_contracts.base import JsonObject

STEPS_KEPT = 5
"""Last steps shown to assessments."""

SIGNATURES_KEPT = 10
"""Signatures of actions that were tried in this step: each attempt must be another one."""

RUNGS_KEPT = 32
"""Denied tools, with the help that was sought: a network has few."""

DEEDS_KEPT = 64
"""Last calls that did something: what a judgement may name as evidence."""

RESULT_BYTES = 16_384
"""The largest result that criteria see; a larger one is null there."""


@dataclass(frozen=True, kw_only=True)
class GoalState:
    """The part of a run's state that only goal runs have.

    `attempt` counts the actions of the current step from 1, `refusals` the refused proposals of that attempt.

    `refused` is the code of the last refusal and `refusal` its text, until the next decision is asked for; `met` are
    the numbers of the criteria that are met, `judged_step` the last step that a model validated. `claimed` is the
    answer of a model that claims to be done, until the next step. `tests` is the last test report, `measured_tests` the
    one before it; `fresh` means that there is a report which progress has not been measured by. `rungs` are
    `tool:rung`; `helped_by` is the help that was sought last, in `helped_step`. `doubt` is why a confidence check is
    wanted; `misreported` names the results of this step that are not of the shape that their tools declare. `acted`
    says that something was done at some time: a call succeeded, other than to the run's own notes and plans; `deeds`
    are such calls, and the runs of specialists that did what the agent may not, each with its id as `name`.
    """

    attempt: int = 1
    tried: tuple[str, ...] = ()
    refusals: int = 0
    refused: str = ""
    refusal: str = ""
    met: tuple[int, ...] = ()
    judged_step: int = 0
    claimed: JsonObject | None = None
    validated_step: int = 0
    succeeded: bool = True
    failures: int = 0
    consecutive_failures: int = 0
    progress: float = 0.0
    progress_source: str = "none"
    progress_metrics: JsonObject | None = None
    progress_step: int = 0
    tests: JsonObject | None = None
    measured_tests: JsonObject | None = None
    artifacts: tuple[JsonObject, ...] = ()
    expected_artifacts: int | None = None
    fresh: bool = False
    results: tuple[JsonObject, ...] = ()
    confidence: float | None = None
    confidence_step: int = 0
    doubt: str = ""
    last_steps: tuple[JsonObject, ...] = ()
    rungs: tuple[str, ...] = ()
    helped_step: int = 0
    helped_by: str = ""
    misreported: str = ""
    acted: bool = False
    deeds: tuple[JsonObject, ...] = ()
