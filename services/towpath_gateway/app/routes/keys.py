"""API keys of a project.

Nobody gives away more than they hold, or makes a key of somebody who holds more; a secret is shown once.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.adapters.key_store import CreateKeyBody, KeyList, KeyView
from towpath_gateway.app.dependencies import Dependencies, KeysAdmin, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal, scopes_of

router = APIRouter(prefix="/v1/keys", route_class=BoundedJsonRoute, tags=["keys"])


@router.post(
    "",
    status_code=201,
    response_model=KeyView,
    responses=documented("actor_reserved", "caller_taken"),
    summary="Make a key",
)
async def create_key(new: CreateKeyBody, dependencies: Dependencies, principal: KeysAdmin) -> Response:
    """Make a key of this project; `key` is shown in this answer and never again."""
    refuse_more_than_held(principal, new)
    view = await dependencies.keys.create(new, project=principal.project, maker=principal)
    return json_answer(view, status=201, headers={"Location": f"/v1/keys/{view.prefix}"})


@router.get("", response_model=KeyList, responses=documented(), summary="List keys")
async def list_keys(
    dependencies: Dependencies,
    principal: KeysAdmin,
    after: Annotated[str | None, Query(max_length=64, description="`next_after` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 500,
) -> Response:
    """Return the project's keys without their secrets, oldest first."""
    return json_answer(await dependencies.keys.page_of(principal.project, after, limit))


@router.delete("/{prefix}", status_code=204, responses=documented("key_not_found"), summary="Revoke a key")
async def revoke_key(prefix: str, dependencies: Dependencies, principal: KeysAdmin) -> Response:
    """End a key; it stays in the list."""
    await dependencies.keys.revoke(prefix, project=principal.project, by=principal)
    return Response(status_code=204)


def refuse_more_than_held(principal: Principal, new: CreateKeyBody) -> None:
    """Raise ProblemError `forbidden` where *new* could do something that *principal* can't."""
    scopes = sorted(set(scopes_of(new.scopes, new.roles)) - principal.scopes)
    roles = sorted(set(new.roles) - principal.roles)
    if scopes or roles:
        raise ProblemError(problem("forbidden", f"you can't give what you don't hold: {[*scopes, *roles]}"))
