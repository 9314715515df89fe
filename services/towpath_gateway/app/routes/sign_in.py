"""The link that `towpath up` prints: it lets a browser of the person in who started the platform."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.app.dependencies import Dependencies

router = APIRouter(include_in_schema=False)

FIRST_PAGE = "/"


@router.get("/sign-in")
async def sign_in(dependencies: Dependencies, token: Annotated[str, Query(max_length=128)] = "") -> Response:
    """Exchange the code of the link for a cookie, once; raises ProblemError `unauthenticated`."""
    local = dependencies.local_token
    cookie = local.sign_in(token) if local is not None and token else None
    if cookie is None:
        detail = "this link was used, or is of an earlier start: towpath up prints a new one at each start"
        raise ProblemError(problem("unauthenticated", detail))
    headers = {"Location": FIRST_PAGE, "Set-Cookie": cookie, "Referrer-Policy": "no-referrer"}
    return Response(status_code=303, headers=headers)
