"""Steering live runs: pause and resume, a note for the model, a gate for a person, a question how confident it is.

Who steers is the credential's person, never a field of the body. A note and a gate are for whoever may start and stop
runs; a pause is lifted by whoever may set one.
"""

from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.run_control import STEERING_CHARS, RunSteered, SteeringAct, SteerRun
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatewayDependencies,
    RunsOperator,
    RunsWriter,
    documented,
    json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal

router = APIRouter(prefix="/v1/runs/{run_id}", route_class=BoundedJsonRoute, tags=["runs"])

_REFUSALS = ("run_not_found", "run_erased", "run_not_live")
TREE_TIMEOUT_S = 30.0
"""A pause goes down level by level, and each is waited for."""


class SteerRunBody(ClientMessage):
    """Why; it stands in the record."""

    reason: str = Field(default="", max_length=STEERING_CHARS)


class GiveNoteBody(ClientMessage):
    """What the model is told."""

    text: str = Field(min_length=1, max_length=STEERING_CHARS)


@router.post("/pause", response_model=RunSteered, responses=documented(*_REFUSALS), summary="Pause a run")
async def pause_run(
    run_id: UUID, dependencies: Dependencies, principal: RunsOperator, why: SteerRunBody | None = None
) -> Response:
    """Let the run, and all below it, begin nothing more; calls that are under way come to their end."""
    return await _steer(dependencies, principal, run_id, "pause", "" if why is None else why.reason)


@router.post(
    "/resume",
    response_model=RunSteered,
    responses=documented(*_REFUSALS, "run_not_paused"),
    summary="Let a paused run go on",
)
async def resume_run(
    run_id: UUID, dependencies: Dependencies, principal: RunsOperator, why: SteerRunBody | None = None
) -> Response:
    """Let the run go on, and what was paused with it."""
    return await _steer(dependencies, principal, run_id, "resume", "" if why is None else why.reason)


@router.post(
    "/note",
    response_model=RunSteered,
    responses=documented(*_REFUSALS, "note_not_read", "act_refused"),
    summary="Tell a run something",
)
async def give_note(run_id: UUID, note: GiveNoteBody, dependencies: Dependencies, principal: RunsWriter) -> Response:
    """Give the model a note, which it reads with the next decision that it is asked for; nobody vouches for it."""
    if not note.text.strip():
        raise ProblemError(problem("request_invalid", "the note is empty"))
    return await _steer(dependencies, principal, run_id, "note", note.text)


@router.post(
    "/gate",
    response_model=RunSteered,
    responses=documented(*_REFUSALS, "run_gates_full"),
    summary="Put a gate on a run",
)
async def put_gate(
    run_id: UUID, dependencies: Dependencies, principal: RunsWriter, why: SteerRunBody | None = None
) -> Response:
    """Have a person decide how the run goes on: `gate_id` is settled like any gate of a run."""
    return await _steer(dependencies, principal, run_id, "gate", "" if why is None else why.reason)


@router.post(
    "/confidence",
    response_model=RunSteered,
    responses=documented(*_REFUSALS, "not_a_goal"),
    summary="Ask a goal run how confident it is",
)
async def ask_confidence(
    run_id: UUID, dependencies: Dependencies, principal: RunsWriter, why: SteerRunBody | None = None
) -> Response:
    """Have the model's confidence checked when the step is over; what follows depends on the run's autonomy."""
    return await _steer(dependencies, principal, run_id, "confidence", "" if why is None else why.reason)


async def _steer(
    dependencies: GatewayDependencies, principal: Principal, run_id: UUID, act: SteeringAct, text: str
) -> Response:
    request = SteerRun(project=principal.project, run_id=run_id, act=act, text=text, **principal.named())
    return json_answer(await dependencies.platform.request(rpc.STEER_RUN, request, timeout_s=TREE_TIMEOUT_S))
