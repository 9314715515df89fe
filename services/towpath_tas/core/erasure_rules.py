"""Who may have something erased: another person than the one who asked for it, or that one after a delay.

What is erased of the audit was there when it was asked for: nobody erases what others could not see in the request. A
platform for a single person takes the confirmation of whoever asked, and the audit says so, as it does for approvals.
Withdrawing erases nothing, so anybody who may ask for erasures may withdraw any. A run is erased with all below it, and
only once nothing of it, nor the run that started it, may still do or read anything. Which runs these are is fixed and
shown when it is asked for; somebody who can change the tables may put another one below it later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.tools.erasures import DecideErasure, ErasureView, RequestErasure
from towpath_tas.core.call import key_detail

MAX_RUNS = 5_000
"""Of one tree: all of them stand in the entry of the confirmation, which a bundle has to hold."""


EXPIRES = timedelta(days=7)
"""After the delay a request can be confirmed for so long; then it is asked for again, and seen again."""


class RunToErase(NamedTuple):
    """A run of the tree that is to be erased; `above`: the run that started it."""

    run_id: UUID
    project: str
    status: str
    erased: bool
    above: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRules:
    """Until *delay* after the request, whoever asked can't confirm it, except on a platform for a *single_person*."""

    delay: timedelta
    single_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureDecision:
    """The status that an erasure gets, and the audit entry of it."""

    status: str
    phase: str
    detail: dict[str, Any]


def selection(erasure: RequestErasure | ErasureView) -> dict[str, str]:
    """Return what is to be erased as text: what is named, by field."""
    named = {
        "run_id": erasure.run_id,
        "execution_id": erasure.execution_id,
        "caller": erasure.caller,
        "before": None if erasure.before is None else erasure.before.isoformat(),
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def selection_problem(request: RequestErasure) -> Problem | None:
    """Return what is wrong with what is named; None where it says clearly what is to be erased."""
    named = selection(request).keys()
    if request.kind == "payloads" and not named:
        return problem("request_invalid", "say whose payloads: run_id, execution_id, caller or before")
    if request.kind == "run" and named != {"run_id"}:
        return problem("request_invalid", "a run is erased whole: give run_id, and nothing else")
    return None


def time_problem(request: RequestErasure, now: datetime) -> Problem | None:
    """Return what is wrong with the time up to which is erased; None where it is over."""
    if request.before is None or request.before <= now:
        return None
    return problem("request_invalid", f"before is {request.before.isoformat()}, and it is {now.isoformat()} now")


def tree_problem(run_id: UUID, project: str, tree: Sequence[RunToErase]) -> Problem | None:
    """Return why a run of *project* can't be erased with what is below it; None where it can."""
    own = next((run for run in tree if run.run_id == run_id), None)
    if own is None or own.project != project:
        return problem("run_not_found", f"no run {run_id} in the project {project}")
    if own.erased:
        return problem("run_erased", f"run {run_id} was erased before", run_id=str(run_id))
    strange = [run for run in tree if run.project != project]
    if strange:
        return problem("forbidden", f"run {strange[0].run_id} of its tree belongs to another project")
    if len(tree) > MAX_RUNS:
        return problem("limit_exceeded", f"more than {MAX_RUNS} runs are below it: erase those further down first")
    live = [run for run in tree if run.status not in FINAL_STATUSES]
    if live:
        which = "the run that started it" if live[0].above else "it" if live[0] is own else "one below or behind it"
        return problem("run_not_ended", f"{which}, {live[0].run_id}, is {live[0].status}", run_id=str(live[0].run_id))
    return None


def runs_of(tree: Sequence[RunToErase]) -> tuple[UUID, ...]:
    """Return the run and those below it."""
    return tuple(run.run_id for run in tree if not run.above)


def _changed(erasure: ErasureView, tree: Sequence[RunToErase]) -> Problem | None:
    """Return a problem where the runs of *tree* are not those that were asked for."""
    strange = set(runs_of(tree)) ^ set(erasure.run_ids)
    if not strange:
        return None
    which = ", ".join(map(str, sorted(strange)[:3]))
    why = f"{erasure.runs} runs were to be erased, and {len(runs_of(tree))} would be: not the same are {which}"
    return problem("erasure_changed", why)


def requested_detail(request: RequestErasure, erasure: ErasureView) -> dict[str, Any]:
    """Return the details of the entry of a request."""
    detail: dict[str, Any] = {
        "erasure_id": str(erasure.erasure_id),
        "kind": erasure.kind,
        "what": selection(request),
        "reason": request.reason,
        "alone_from": erasure.alone_from.isoformat(),
        **key_detail(request.key_prefix, request.key_commitment),
    }
    if erasure.kind == "run":
        detail["runs"] = [str(run_id) for run_id in erasure.run_ids]
    return detail


def decide(
    erasure: ErasureView, request: DecideErasure, rules: ErasureRules, now: datetime, tree: Sequence[RunToErase] = ()
) -> ErasureDecision | Problem | None:
    """Return what *request* makes of an erasure, or why it makes nothing; None where it is a repeated one.

    *tree* are the runs as they are now that the erasure of a run would erase.
    """
    if erasure.status != "requested":
        return None if _is_repeated(erasure, request) else _settled(erasure)
    detail: dict[str, Any] = {"erasure_id": str(erasure.erasure_id), "kind": erasure.kind}
    detail |= {"what": selection(erasure), "reason": erasure.reason}
    detail |= {"requested_by": erasure.requested_by, **key_detail(request.key_prefix, request.key_commitment)}
    if request.verdict == "withdraw":
        return ErasureDecision(status="withdrawn", phase="audit.erase_withdrawn", detail=detail)
    if now >= erasure.alone_from + EXPIRES:
        until = (erasure.alone_from + EXPIRES).isoformat()
        return problem("erasure_settled", f"it could be confirmed until {until}; ask for it again")
    if erasure.kind == "run" and erasure.run_id is not None:
        refused = tree_problem(erasure.run_id, erasure.project, tree)
        refused = refused or _changed(erasure, tree)
        if refused is not None:
            return refused
        detail["runs"] = [str(run_id) for run_id in erasure.run_ids]
    alone = request.actor == erasure.requested_by
    waited = now >= erasure.alone_from
    if alone and not waited and not rules.single_person:
        why = f"{erasure.requested_by} asked for it; another person may confirm now, they from {erasure.alone_from} on"
        return problem("second_person_required", why)
    marks = {"after_delay": True} if alone and waited else {"single_person": True} if alone else {}
    return ErasureDecision(status="confirmed", phase="audit.erase_confirmed", detail=detail | marks)


def _is_repeated(erasure: ErasureView, request: DecideErasure) -> bool:
    """Return whether the same person says the same once more: the first answer may have been lost."""
    made = "withdraw" if erasure.status == "withdrawn" else "confirm"
    return made == request.verdict and erasure.decided_by == request.actor


def _settled(erasure: ErasureView) -> Problem:
    word = {"withdrawn": "withdrawn", "confirmed": "confirmed", "done": "carried out"}[erasure.status]
    return problem("erasure_settled", f"it was {word}; {erasure.decided_by} decided at {erasure.decided_at}")
