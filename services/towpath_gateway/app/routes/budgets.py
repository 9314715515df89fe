"""Budgets: what may be spent by whom, and what is.

Whoever may read runs may read what they spend; who sets a limit is the credential's person, who needs the role
`operator`. A credential sees and limits nothing outside its own project.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage, Token
from towpath_contracts.budgets import Budget, BudgetAccountList, BudgetKind, BudgetSet, SetBudget, ShowBudgets
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.switches import OPERATOR
from towpath_gateway.app.dependencies import (
    Dependencies,
    RunsOperator,
    RunsReader,
    documented,
    json_answer,
    require_role,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/budgets", route_class=BoundedJsonRoute, tags=["budgets"])


class SetBudgetBody(ClientMessage):
    """What to limit; of the project `name` may be left out. Without a `budget` the limit is lifted."""

    kind: BudgetKind
    name: Token | None = None
    per_day: bool = False
    budget: Budget | None = None
    reason: Annotated[str, Field(max_length=2_000)] = ""


@router.get("", response_model=BudgetAccountList, responses=documented("run_not_found"), summary="What is spent")
async def show_budgets(
    dependencies: Dependencies,
    principal: RunsReader,
    caller: Annotated[Token | None, Query(description="only what is limited of this caller")] = None,
    run_id: Annotated[UUID | None, Query(description="the accounts of one run")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> Response:
    """Return accounts with limit, spent, reserved, left and the part that is estimated; the wider ones last."""
    request = ShowBudgets(project=principal.project, caller=caller, run_id=run_id, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.SHOW_BUDGETS, request))


@router.post("", response_model=BudgetSet, responses=documented("role_missing", "not_found"), summary="Set a budget")
async def set_budget(wanted: SetBudgetBody, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Limit a caller or the project, in all or for each UTC day (needs the role `operator`)."""
    require_role(principal, OPERATOR)
    if wanted.name is None and wanted.kind != "project":
        raise ProblemError(problem("request_invalid", f"name the {wanted.kind}"))
    request = SetBudget(
        project=principal.project,
        kind=wanted.kind,
        name=wanted.name or principal.project,
        per_day=wanted.per_day,
        budget=wanted.budget,
        roles=tuple(sorted(principal.roles)),
        reason=wanted.reason,
        **principal.named(),
    )
    return json_answer(await dependencies.platform.request(rpc.SET_BUDGET, request))
