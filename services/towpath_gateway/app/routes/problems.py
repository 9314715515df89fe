"""The problem registry, for people who follow a code."""

from fastapi import APIRouter, Request, Response

from towpath_contracts.base import Message
from towpath_contracts.outcomes.outcome_codes import OUTCOMES
from towpath_contracts.outcomes.outcome_kind import OutcomeKind
from towpath_contracts.problems.examples.problem_examples import EXAMPLES
from towpath_contracts.problems.kind import ProblemKind
from towpath_contracts.problems.registry import REGISTRY, TYPE_PREFIX, ProblemError, problem
from towpath_gateway.app.dependencies import documented_without_key, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/problems", route_class=BoundedJsonRoute, tags=["problems"])


class ProblemEntry(Message):
    """What a code means, what to do about it, how it comes about, and a message with what mends it.

    Status 0 marks problems of the command line, and codes that stand in records alone: `of` says in which.
    """

    type: str
    code: str
    status: int
    title: str
    remedy: str
    retryable: bool
    cause: str
    example: str
    of: str = ""


class ProblemList(Message):
    """Every problem code of the platform, as `GET /problems` shows it."""

    problems: tuple[ProblemEntry, ...]


@router.get(
    "",
    response_model=ProblemList,
    responses=documented_without_key("keyless_share_full"),
    summary="Every problem code",
)
async def list_problems(request: Request) -> Response:
    """Return the registry; it needs no key, since it says nothing about anybody. A browser gets a page."""
    kinds = tuple(map(_entry, REGISTRY.values()))
    page: Response | None = request.app.state.console.explanation(kinds, request)
    return page or _negotiated(ProblemList(problems=kinds))


@router.get(
    "/{code}",
    response_model=ProblemEntry,
    responses=documented_without_key("not_found", "keyless_share_full"),
    summary="Explain a problem code",
)
async def get_problem(code: str, request: Request) -> Response:
    """Return what *code* means, be it of a problem, a run, a call or a model. A browser gets a page."""
    if code in REGISTRY:
        entry = _entry(REGISTRY[code])
    elif code in OUTCOMES:
        entry = _outcome_entry(OUTCOMES[code])
    else:
        raise ProblemError(problem("not_found", "there is no such code"))
    page: Response | None = request.app.state.console.explanation([entry], request, code)
    return page or _negotiated(entry)


def _negotiated(message: Message) -> Response:
    """Answer with JSON, at an address where others get a page."""
    return json_answer(message, headers={"Vary": "Accept"})


def _outcome_entry(kind: OutcomeKind) -> ProblemEntry:
    return ProblemEntry(
        type=TYPE_PREFIX + kind.code, code=kind.code, status=0, title=kind.meaning, remedy=kind.remedy,
        retryable=False, cause="", example="", of=kind.of,
    )  # fmt: skip


def _entry(kind: ProblemKind) -> ProblemEntry:
    return ProblemEntry(type=TYPE_PREFIX + kind.code, **kind._asdict(), **EXAMPLES[kind.code]._asdict())
