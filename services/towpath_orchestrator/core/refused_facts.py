"""What becomes of a batch of facts of which one makes of its run what Postgres can't store, and of that one's run.

The facts of a batch are committed together, so the one at fault is found by halves: first of the runs, then of the
facts of a run, in their order. All others are committed as if it had never been among them. The run then learns of it,
so that it asks again or stands still where people see it, and never waits in silence:

    an answer to what the run still asks ----> it asks again; a third refusal ends it as `dead_lettered`
    what the run neither asked nor needs ----> nothing: the letter and the log line tell of it
    anything else: a timer, a verdict -------> it is quarantined as `value_refused`: only a cancel goes on from there
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum, auto
from typing import TypeVar
from uuid import UUID

from towpath_contracts.facts import (
    AnyFact,
    ApprovalRequiredFact,
    BudgetWarnedFact,
    CallPausedFact,
    CallPostponedFact,
    ChildReportedFact,
    DecisionFailedFact,
    DecisionMadeFact,
    InternalOutcomeRecordedFact,
    InternalToolPermittedFact,
    QuotaChangedFact,
    RunSteeredFact,
    ToolDeniedFact,
    ToolFinishedFact,
    WatchdogReportedFact,
)
from towpath_engine.state.run import RunState, Status

Item = TypeVar("Item")


class Remedy(StrEnum):
    """How the run of a refused fact learns of it."""

    ASK_AGAIN = auto()
    PARK = auto()
    NONE = auto()


def halves_of(facts: Mapping[UUID, Sequence[Item]]) -> list[dict[UUID, list[Item]]]:
    """Return two halves of the facts of a batch; of one run, those that came first. Nothing where there is one fact."""
    runs = list(facts)
    if len(runs) > 1:
        middle = len(runs) // 2
        return [{run: list(facts[run]) for run in part} for part in (runs[:middle], runs[middle:])]
    ((run, items),) = facts.items()
    if len(items) < 2:
        return []
    middle = len(items) // 2
    return [{run: list(items[:middle])}, {run: list(items[middle:])}]


def answered_effect(fact: AnyFact) -> UUID | None:
    """Return the effect that *fact* is an answer to, None where it is none."""
    match fact:
        case DecisionMadeFact() | DecisionFailedFact():
            return fact.request_id
        case (
            ToolFinishedFact()
            | InternalToolPermittedFact()
            | InternalOutcomeRecordedFact()
            | ToolDeniedFact()
            | ApprovalRequiredFact()
            | CallPausedFact()
            | CallPostponedFact()
        ):
            return fact.execution_id
        case ChildReportedFact():
            return fact.child_id
        case _:
            return None


def remedy_for(fact: AnyFact, state: RunState | None) -> Remedy:
    """Return how the run in *state*, as far as it is known, learns that *fact* was refused."""
    if isinstance(fact, WatchdogReportedFact | RunSteeredFact | BudgetWarnedFact | QuotaChangedFact):
        return Remedy.NONE
    effect_id = answered_effect(fact)
    pending = None if state is None or effect_id is None else state.pending_effect(effect_id)
    if state is None or pending is None or pending.postponed:
        return Remedy.PARK
    # A cancel goes on without the answer: it gives up calls that are late, and lists them as unknown.
    return Remedy.NONE if state.status is Status.CANCELLING else Remedy.ASK_AGAIN
