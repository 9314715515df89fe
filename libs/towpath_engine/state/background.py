"""The state of a background run beside the rest of its state. It is bounded; plan and files are in the workspace."""

from dataclasses import dataclass

from towpath_contracts.base import JsonObject

CALLS_KEPT = 5
"""Last tool calls of the snapshot that a prompt shows."""

REFLECTIONS_KEPT = 5
"""Notes of reflections that a prompt shows; they are pending until the next decision is made."""


@dataclass(frozen=True, kw_only=True)
class BackgroundRunState:
    """The part of a run's state that only background runs have.

    `failures` in a row count towards `max_failures`, denials not among them; `reflections` are shown until the next
    decision.

    `iteration` is the one that has begun, 0 between two; `began_ms` is the run's active time at its begin. `failed` are
    the signatures of the calls of the last iteration that failed by their own fault: unless a reflection has chosen
    `retry`, they may not be repeated as they are. `ending` is the status that the run comes to, once its summary is
    there; `faults` counts deliverables that were not what their schema asks for.
    """

    failures: int = 0
    total_failures: int = 0
    last_error: str = ""
    last_calls: tuple[JsonObject, ...] = ()
    reflections: tuple[str, ...] = ()
    iteration: int = 0
    began_ms: int = 0
    decision: str = ""
    tools: tuple[str, ...] = ()
    went: str = ""
    failed: tuple[str, ...] = ()
    retry_allowed: bool = False
    reset_allowed: bool = False
    ending: str = ""
    ending_reason: str = ""
    rationale: str = ""
    payload: JsonObject | None = None
    faults: int = 0
    problems: tuple[str, ...] = ()
    summary: str = ""
    deliverable: JsonObject | None = None
