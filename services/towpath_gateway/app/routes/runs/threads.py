"""Threads: reply to a run that has ended.

A reply is a task like any other, on the network of the run that it continues: what is said here in a few fields is a
SubmitTask with `continues`, which `POST /v1/runs` and NATS take too.
"""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field

from towpath_contracts.base import ClientMessage, JsonObject, Name
from towpath_contracts.budgets import Budget
from towpath_contracts.decisions.attachments import MAX_ATTACHMENTS, TaskAttachment
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.run_limits import MAX_STEPS_CAP, MAX_TIMEOUT_MS
from towpath_contracts.runs.views import RunView
from towpath_contracts.tasks import PrintableKey, RunAccepted, SubmitTask, TaskGrantRule
from towpath_gateway.app.dependencies import ClientSpan, Dependencies, RunsWriter, documented, require_scope
from towpath_gateway.app.routes.runs.submission import IdempotencyKey, Prefer, submit_task, with_key
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/runs/{run_id}", route_class=BoundedJsonRoute, tags=["runs"])


class ReplyBody(ClientMessage):
    """What is said next, and what is to hold for the run that answers it; the other fields are those of SubmitTask.

    What is left out is as in the run that is continued, but for steps, time, priority and the shape of the answer,
    which are the network's. A grant narrows the rights of that run.
    """

    content: str = Field(min_length=1, max_length=100_000)
    version: int | None = Field(default=None, ge=1, le=2**31 - 1)
    agent_key: str | None = None
    system_params: JsonObject = Field(default_factory=dict)
    quoted_inputs: dict[Name, str] = Field(default_factory=dict, max_length=32)
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)
    model: str | None = Field(default=None, max_length=256)
    model_settings: ModelSettings | None = None
    script: tuple[Any, ...] | None = Field(default=None, max_length=MAX_STEPS_CAP)
    grant: tuple[TaskGrantRule, ...] | None = Field(default=None, max_length=256)
    labels: dict[str, str] = Field(default_factory=dict, max_length=32)
    priority: int = Field(default=5, ge=0, le=10)
    debug: bool = False
    response_schema: JsonObject | None = None
    budget: Budget | None = None
    attachments: tuple[TaskAttachment, ...] = Field(default=(), max_length=MAX_ATTACHMENTS)
    idempotency_key: PrintableKey | None = None

    def task(self, network: str, run_id: UUID) -> SubmitTask:
        """Return the task that continues the run, which is of *network*."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"content", "schema_version"}}
        return SubmitTask(network=network, user_message=self.content, continues=run_id, **given)


@router.post(
    "/messages",
    status_code=202,
    response_model=RunAccepted,
    responses={
        **documented(
            *("run_not_found", "run_erased", "run_not_ended", "run_continued", "reply_refused"),
            *("idempotency_conflict", "overloaded", "request_too_large", "version_not_found"),
        ),
        200: {"description": "The run ended within the wait", "model": RunView},
    },
    summary="Reply to a run that has ended",
)
async def reply(
    run_id: UUID,
    body: ReplyBody,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
    key: IdempotencyKey = None,
    prefer: Prefer = None,
) -> Response:
    """Start the next run of the thread: it has the turns before it, the files, and a budget and time of its own."""
    require_scope(principal, "runs:read")
    earlier = await dependencies.platform.run(principal.project, run_id)
    return await submit_task(with_key(body.task(earlier.network, run_id), key), dependencies, principal, span, prefer)
