"""Dead letters: messages that could not be handled.

A letter belongs to the project of its run. One whose project nobody knows is shown to whoever operates the
platform: a scope that no project's administrator has or can give.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.dead_letters import (
    DeadLetter,
    DeadLetterPage,
    LetterStatus,
    ListDeadLetters,
    SettleDeadLetter,
)
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatewayDependencies,
    RunsOperator,
    documented,
    json_answer,
    require_role,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import OPERATE_PLATFORM, Principal

router = APIRouter(prefix="/v1/dead-letters", route_class=BoundedJsonRoute, tags=["dead letters"])

MAX_ID = 2**63 - 1
OPERATOR = "operator"

LetterId = Annotated[int, Path(ge=1, le=MAX_ID)]
_REFUSALS = ("not_found", "role_missing", "dead_letter_settled", "reason_required")


class SettleDeadLetterBody(ClientMessage):
    """Why a dead letter is requeued or discarded; the reason stands in the audit."""

    reason: str = Field(max_length=2_000)


@router.get("", response_model=DeadLetterPage, responses=documented(), summary="List dead letters, newest first")
async def list_dead_letters(
    dependencies: Dependencies,
    principal: RunsOperator,
    status: Annotated[LetterStatus | None, Query(description="Default: dead")] = "dead",
    stream: Annotated[str | None, Query(max_length=32)] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="`next_before` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Return a page of letters without their bodies."""
    request = ListDeadLetters(
        project=principal.project,
        unowned=_sees_unowned(principal),
        status=status,
        stream=stream,
        before=before,
        limit=limit,
    )
    return json_answer(await dependencies.platform.request(rpc.LIST_DEAD_LETTERS, request))


@router.get(
    "/{dead_letter_id}", response_model=DeadLetter, responses=documented("not_found"), summary="Look at a dead letter"
)
async def get_dead_letter(dead_letter_id: LetterId, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Return one letter with its body."""
    request = ListDeadLetters(
        project=principal.project, unowned=_sees_unowned(principal), status=None, dead_letter_id=dead_letter_id, limit=1
    )
    page: DeadLetterPage = await dependencies.platform.request(rpc.LIST_DEAD_LETTERS, request)
    if not page.letters:
        raise ProblemError(problem("not_found", f"{dead_letter_id} is no dead letter of this project"))
    return json_answer(page.letters[0])


@router.post(
    "/{dead_letter_id}/requeue", response_model=ActionDone, responses=documented(*_REFUSALS), summary="Send it again"
)
async def requeue(
    dead_letter_id: LetterId, settle: SettleDeadLetterBody, dependencies: Dependencies, principal: RunsOperator
) -> Response:
    """Put the message back where it came from, once (needs the role `operator`)."""
    request = _settle(principal, dead_letter_id, settle)
    return await _settled(dependencies, request.model_copy(update={"verdict": "requeue"}))


@router.post(
    "/{dead_letter_id}/discard", response_model=ActionDone, responses=documented(*_REFUSALS), summary="Throw it away"
)
async def discard(
    dead_letter_id: LetterId, settle: SettleDeadLetterBody, dependencies: Dependencies, principal: RunsOperator
) -> Response:
    """Settle the letter without sending it; it stays readable (needs the role `operator`)."""
    return await _settled(dependencies, _settle(principal, dead_letter_id, settle))


def _settle(principal: Principal, dead_letter_id: int, settle: SettleDeadLetterBody) -> SettleDeadLetter:
    require_role(principal, OPERATOR)
    if not settle.reason.strip():
        raise ProblemError(problem("reason_required", "it stands in the audit"))
    return SettleDeadLetter(
        project=principal.project,
        unowned=_sees_unowned(principal),
        dead_letter_id=dead_letter_id,
        verdict="discard",
        reason=settle.reason,
        **principal.named(),
    )


async def _settled(dependencies: GatewayDependencies, request: SettleDeadLetter) -> Response:
    return json_answer(await dependencies.platform.request(rpc.SETTLE_DEAD_LETTER, request, timeout_s=15.0))


def _sees_unowned(principal: Principal) -> bool:
    return OPERATE_PLATFORM in principal.scopes
