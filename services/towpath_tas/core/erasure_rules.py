"""Who may have something erased: another person than the one who asked for it, or that one after a delay.

A platform for a single person takes the confirmation of whoever asked, and the audit says so, as it does for approvals.
Withdrawing erases nothing, so anybody who may ask for erasures may withdraw any.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.tools.erasures import DecideErasure, ErasureView, RequestErasure


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


def requested_detail(request: RequestErasure, erasure: ErasureView) -> dict[str, Any]:
    """Return the details of the entry of a request."""
    return {
        "erasure_id": str(erasure.erasure_id),
        "what": selection(request),
        "reason": request.reason,
        "alone_from": erasure.alone_from.isoformat(),
        "by_key": request.key_prefix,
    }


def decide(
    erasure: ErasureView, request: DecideErasure, rules: ErasureRules, now: datetime
) -> ErasureDecision | Problem | None:
    """Return what *request* makes of an erasure, or why it makes nothing; None where it is a repeated one."""
    if erasure.status != "requested":
        return None if _is_repeated(erasure, request) else _settled(erasure)
    detail = {"erasure_id": str(erasure.erasure_id), "what": selection(erasure), "reason": erasure.reason}
    detail |= {"requested_by": erasure.requested_by, "by_key": request.key_prefix}
    if request.verdict == "withdraw":
        return ErasureDecision(status="withdrawn", phase="audit.erase_withdrawn", detail=detail)
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
