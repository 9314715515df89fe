"""The problem registry, for people who follow a code."""

from fastapi import APIRouter, Response

from towpath_contracts.base import Message
from towpath_contracts.problems.kind import ProblemKind
from towpath_contracts.problems.registry import REGISTRY, TYPE_PREFIX, ProblemError, problem
from towpath_gateway.app.dependencies import documented_without_key, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/problems", route_class=BoundedJsonRoute, tags=["problems"])


class ProblemEntry(Message):
    """What a code means and what to do about it; status 0 marks problems of the command line."""

    type: str
    code: str
    status: int
    title: str
    remedy: str
    retryable: bool


class ProblemList(Message):
    """Every problem code of the platform, as `GET /problems` shows it."""

    problems: tuple[ProblemEntry, ...]


@router.get(
    "",
    response_model=ProblemList,
    responses=documented_without_key("keyless_share_full"),
    summary="Every problem code",
)
async def list_problems() -> Response:
    """Return the registry; it needs no key, since it says nothing about anybody."""
    return json_answer(ProblemList(problems=tuple(map(_entry, REGISTRY.values()))))


@router.get(
    "/{code}",
    response_model=ProblemEntry,
    responses=documented_without_key("not_found", "keyless_share_full"),
    summary="Explain a problem code",
)
async def get_problem(code: str) -> Response:
    """Return what *code* means."""
    kind = REGISTRY.get(code)
    if kind is None:
        raise ProblemError(problem("not_found", "there is no such problem code"))
    return json_answer(_entry(kind))


def _entry(kind: ProblemKind) -> ProblemEntry:
    return ProblemEntry(type=TYPE_PREFIX + kind.code, **kind._asdict())
