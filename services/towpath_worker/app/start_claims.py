"""Asks TAS for permission to start a call (`svc.tas.claim_start`), before anything that is not pure.

No answer means: do not run, ask again with the same claim_id. The time to start in counts from when the request was
sent, on this process's monotonic clock, so that two machines' clocks are never compared.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import CLAIM_START
from towpath_contracts.tools.calls import ClaimAnswer, ClaimStart
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.ports import MessageBus

FIRST_ANSWER_S = 0.5
LONGEST_ANSWER_S = 2.0
"""How long one request waits, at first and at most: TAS answers in milliseconds, and one that died is back in half a
second. It doubles, so that a slow TAS isn't asked ever more often."""

LONGEST_PAUSE_S = 3.0

EXPIRED = "ticket_expired"
"""The refusal that means: authorise this call again."""

UNAVAILABLE = "unavailable"
"""The refusal that means: TAS could not store the claim; ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartClaimResult:
    """TAS's answer. A granted claim must start by `start_by_s` and end by `lease_until_s` (monotonic).

    `probe` says whether the tool's probe is asked first, and what an unclear answer means (`ClaimAnswer`). Where an
    earlier request was `unanswered`, TAS may have granted that one before it refused.
    """

    granted: bool
    reason: str = ""
    unanswered: bool = False
    start_by_s: float = 0.0
    lease_until_s: float = 0.0
    probe: Literal["", "required", "preferred"] = ""

    @property
    def expired(self) -> bool:
        """Whether the ticket ran out, so that the call has to be authorised again."""
        return not self.granted and self.reason == EXPIRED


def wall_s() -> float:
    """Return this machine's time in seconds since the epoch."""
    return wall().timestamp()


async def claim_start(
    bus: MessageBus, request: ClaimStart, expires_at: float, now_s: Callable[[], float] = wall_s
) -> StartClaimResult:
    """Ask until TAS answers, or the ticket has expired (*expires_at*, seconds since the epoch, by *now_s*)."""
    pause_s, answer_s = 0.1, FIRST_ANSWER_S
    unanswered = False
    while True:
        sent_s = monotonic()
        answer = await _request(bus, request, answer_s)
        if answer is not None:
            return StartClaimResult(
                granted=answer.granted,
                reason=answer.reason,
                unanswered=unanswered,
                start_by_s=sent_s + answer.start_by_ms / 1000,
                lease_until_s=sent_s + answer.lease_ms / 1000,
                probe=answer.probe,
            )
        unanswered = True
        await asyncio.sleep(pause_s)
        pause_s, answer_s = min(pause_s * 2, LONGEST_PAUSE_S), min(answer_s * 2, LONGEST_ANSWER_S)
        if now_s() > expires_at:
            return StartClaimResult(granted=False, reason=EXPIRED, unanswered=True)


async def _request(bus: MessageBus, request: ClaimStart, answer_s: float) -> ClaimAnswer | None:
    """Return TAS's answer, or None where none came within *answer_s* that decides."""
    try:
        answer: ClaimAnswer = await bus.request(CLAIM_START, request, timeout_s=answer_s)
    except ProblemError as error:
        if error.problem.retryable or error.problem.code == "internal":
            return None
        return ClaimAnswer(granted=False, reason=error.problem.code)
    if answer.claim_id not in (None, request.claim_id):
        return None  # the answer to another claim does not permit this one
    return None if not answer.granted and answer.reason == UNAVAILABLE else answer
