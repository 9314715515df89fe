"""The synchronous API: run to the end, one instruction, a prompt, the payload and the output of a tool call.

Giving up the wait changes nothing: the run goes on, and the problem says where it is.
"""

import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage, JsonObject, Message, Name
from towpath_contracts.decisions.request import RenderPromptAnswer, RenderPromptRequest
from towpath_contracts.events.log import LogEntry, ToolCallFinished
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.run_limits import MAX_VERSION
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.runs.views import PreviewPrompt, PromptContextPreview
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_contracts.text import as_text, stored_text
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.dependencies import (
    ClientSpan,
    Dependencies,
    GatewayDependencies,
    NetworksReader,
    RunsReader,
    RunsWriter,
    documented,
    json_answer,
    long_json_answer,
    require_reading_of_continued,
)
from towpath_gateway.app.log_readings import LogReadings, json_parts
from towpath_gateway.app.routes.runs.submission import IdempotencyKey, trace_header, with_key
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.headers import byte_range, preferred_wait
from towpath_gateway.core.run_answers import AnsweredRequests, DebugModelCallList, RunAnswer, run_answer, run_debug
from towpath_readings.execution_log import ExecutionLogReader


async def run_to_end(
    dependencies: GatewayDependencies,
    principal: Principal,
    task: SubmitTask,
    seconds: float,
    span: RemoteSpan | None = None,
) -> RunAnswer:
    """Submit *task* and return its answer; raises ProblemError `timeout` with run_id and state after *seconds*.

    Whatever is raised once there is a run names it: who repeated the request would have it a second time.
    """
    require_reading_of_continued(principal, task)
    accepted = await dependencies.platform.submit(principal.caller, task, span)
    try:
        return await _answer_of(dependencies, principal.project, accepted, task, seconds)
    except ProblemError as error:
        found = error.problem.of_run(accepted.run_id)
        raise ProblemError(found.model_copy(update={"trace_id": accepted.trace_id or None})) from error


async def _answer_of(
    dependencies: GatewayDependencies, project: str, accepted: RunAccepted, task: SubmitTask, seconds: float
) -> RunAnswer:
    platform, run_id = dependencies.platform, accepted.run_id
    view = await platform.wait_for_end(project, run_id, seconds)
    if view is None or view.status not in FINAL_STATUSES:
        raise ProblemError(still_running(str(run_id), accepted.status if view is None else view.status, seconds))
    log, answered = ExecutionLogReader(of=()), AnsweredRequests()
    async with dependencies.readings.log(project, run_id, log, answered):
        debug = await _debug(platform, project, run_id, frozenset(answered.found)) if task.debug else None
        return run_answer(view, log.log, debug)


def still_running(run_id: str, status: str, seconds: float) -> Problem:
    """Return the problem of a wait that is over before its run."""
    detail = f"the run is {status} after {seconds:g} s"
    return problem("timeout", detail, run_id=run_id, extra={"status": status, "location": f"/v1/runs/{run_id}"})


async def _debug(platform: PlatformClient, project: str, run_id: UUID, wanted: frozenset[str]) -> DebugModelCallList:
    """Return the raw texts; without the log-writer there are none, which `missing` says, and the answer stands."""
    try:
        calls = await platform.llm_calls(project, run_id, wanted)
    except ProblemError as error:
        if error.problem.code not in {"unavailable", "run_not_found"}:
            raise
        calls = []
    return run_debug(calls, wanted)


router = APIRouter(route_class=BoundedJsonRoute, tags=["direct calls"])

SCRIPTED_MODEL = "scripted:task"
"""Plays the script that comes with the task; it is named for what it is."""

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:/-]{0,127}")

Prefer = Annotated[
    str | None, Header(description="`wait=N` answers 408 after N seconds instead of the server's own limit.")
]


class ExecuteDecisionBody(ClientMessage):
    """One decision to carry out without a model; `decision` is in the form a model writes."""

    agent_key: Name
    decision: JsonObject
    system_params: JsonObject = Field(default_factory=dict)
    user_message: str = Field(default="", max_length=100_000)
    version: int | None = Field(default=None, ge=1, le=MAX_VERSION)


class PreviewPromptBody(ClientMessage):
    """Whose prompt, for what message; for another *model* than the agent's own, where one is named."""

    agent_key: Name | None = None
    user_message: str = Field(default="", max_length=100_000)
    version: int | None = Field(default=None, ge=1, le=MAX_VERSION)
    model: str | None = Field(default=None, min_length=1, max_length=256)


class PromptPreviewAnswer(Message):
    """The prompt that an agent would get in its first step, rendered without asking a model.

    `model_missing` is what the model lacks before it can be asked, a key for example; empty where nothing is known.
    """

    agent_key: str
    model: str
    prompt: str
    digest: str
    model_missing: str = ""


class ToolCallPayload(Message):
    """The full payload of one tool call."""

    execution_id: UUID
    agent_key: str
    tool_key: str
    merged_params: JsonObject
    result: Any = None
    status: str
    duration_ms: int
    timestamp: str


@router.post(
    "/run",
    response_model=RunAnswer,
    responses=documented("network_not_found", "idempotency_conflict", "overloaded", "timeout", "request_too_large"),
    summary="Run a network to its end",
)
async def run_once(
    task: SubmitTask,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
    key: IdempotencyKey = None,
    prefer: Prefer = None,
) -> Response:
    """Run and wait. `debug` adds raw prompts and model texts; a failed run is an answer too, with its transcript."""
    answer = await run_to_end(dependencies, principal, with_key(task, key), _limit(dependencies, prefer), span)
    return json_answer(answer, headers=trace_header(answer.run_id, answer.trace_id))


@router.post(
    "/v1/networks/{name:path}/invoke",
    response_model=RunAnswer,
    responses=documented("network_not_found", "agent_not_found", "script_not_allowed", "timeout"),
    summary="Carry out one instruction without a model",
)
async def invoke(
    name: str,
    one: ExecuteDecisionBody,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
    prefer: Prefer = None,
) -> Response:
    """Carry out one decision as a run of a single instruction: validated, permitted and recorded like any other."""
    task = SubmitTask(
        network=_name(name),
        agent_key=one.agent_key,
        version=one.version,
        user_message=one.user_message,
        system_params=one.system_params,
        script=(one.decision,),
        model=SCRIPTED_MODEL,
        single_instruction=True,
    )
    answer = await run_to_end(dependencies, principal, task, _limit(dependencies, prefer), span)
    return json_answer(answer, headers=trace_header(answer.run_id, answer.trace_id))


@router.post(
    "/v1/networks/{name:path}/prompt",
    response_model=PromptPreviewAnswer,
    responses=documented("network_not_found", "version_not_found", "agent_not_found"),
    summary="Show the prompt an agent would get",
)
async def show_prompt(
    name: str, asked: PreviewPromptBody, dependencies: Dependencies, principal: NetworksReader
) -> Response:
    """Return the prompt of an agent's first step; no model is called and no run is made."""
    request = PreviewPrompt(
        project=principal.project,
        network=_name(name),
        version=asked.version,
        agent_key=asked.agent_key,
        user_message=asked.user_message,
    )
    preview: PromptContextPreview = await dependencies.platform.request(rpc.PREVIEW_PROMPT, request)
    model = asked.model or preview.model
    rendered: RenderPromptAnswer = await dependencies.platform.request(
        rpc.RENDER_PROMPT, RenderPromptRequest(context=preview.context, project=principal.project, model=model)
    )
    return json_answer(
        PromptPreviewAnswer(
            agent_key=preview.context.agent_key,
            model=model,
            prompt=rendered.prompt,
            digest=rendered.digest,
            model_missing=rendered.model_missing,
        )
    )


@router.get(
    "/v1/runs/{run_id}/tools/{execution_id}",
    response_model=ToolCallPayload,
    responses=documented("run_not_found", "run_erased", "tool_call_not_found"),
    summary="The full payload of a tool call",
)
async def get_tool_payload(
    run_id: UUID, execution_id: UUID, dependencies: Dependencies, principal: RunsReader
) -> Response:
    """Return arguments and result of a finished call in full; a large result is fetched from where it is stored."""
    readings, project = dependencies.readings, principal.project
    found, stored = await _ended_call(dependencies, project, run_id, execution_id)
    payload = ToolCallPayload(execution_id=execution_id, **found)
    if stored is None:
        return await long_json_answer(dependencies, project, payload)
    async with readings.blob(project, run_id, stored) as data:  # the JSON that was stored
        return readings.answer(project, await json_parts(payload, {"result": data}))


@router.get(
    "/v1/runs/{run_id}/tools/{execution_id}/output",
    responses=documented("run_not_found", "run_erased", "tool_call_not_found", "range_invalid"),
    summary="The output of a tool call as a text, in parts",
)
async def get_tool_output(
    run_id: UUID,
    execution_id: UUID,
    dependencies: Dependencies,
    principal: RunsReader,
    wanted: Annotated[
        str | None, Header(alias="Range", description="bytes=FIRST-LAST, bytes=FIRST-, bytes=-LAST")
    ] = None,
) -> Response:
    """Return what the call returned: a text as it is, all else as JSON; the bytes that `Range` names, or all.

    Bytes are counted as `output_read` and the previews of prompts count them.
    """
    readings, project = dependencies.readings, principal.project
    found, stored = await _ended_call(dependencies, project, run_id, execution_id)
    if stored is None:
        result = found["result"]
        return _part_of_output(readings, project, as_text(result), wanted, is_text=isinstance(result, str))
    async with readings.blob(project, run_id, stored) as data:
        text, is_text = stored_text(data)
        return _part_of_output(readings, project, text, wanted, is_text=is_text)


async def _ended_call(
    dependencies: GatewayDependencies, project: str, run_id: UUID, execution_id: UUID
) -> tuple[JsonObject, str | None]:
    """Return what the log of a run has of a call that ended, and the digest of a result that is stored apart."""
    log, stored = ExecutionLogReader(of={execution_id}), StoredResult(execution_id)
    async with dependencies.readings.log(project, run_id, log, stored):
        found = log.log.tool_log.get(str(execution_id))
    if found is None:
        detail = f"{execution_id} has no outcome in run {run_id}"
        raise ProblemError(problem("tool_call_not_found", detail, run_id=str(run_id)))
    return found, stored.digest


def _part_of_output(readings: LogReadings, project: str, text: str, wanted: str | None, *, is_text: bool) -> Response:
    data = text.encode("utf-8", "replace")
    kind = "text/plain; charset=utf-8" if is_text else "application/json"
    try:
        part = byte_range(wanted, len(data))
    except ValueError as error:
        raise ProblemError(problem("range_invalid", str(error))) from error
    headers = {"Accept-Ranges": "bytes"}
    if part is None:
        return readings.answer(project, [data], headers=headers, media_type=kind)
    start, end = part
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
    return readings.answer(project, [data[start:end]], status=206, headers=headers, media_type=kind)


class StoredResult:
    """The digest under which a call's large result is stored; None for one that is in the log."""

    def __init__(self, execution_id: UUID) -> None:
        """Nothing is known of the call *execution_id* yet."""
        self._execution_id = execution_id
        self.digest: str | None = None

    def take(self, entry: LogEntry) -> None:
        """Read one more entry."""
        event = entry.event
        if isinstance(event, ToolCallFinished) and event.execution_id == self._execution_id and event.blob:
            self.digest = event.result_digest


def _limit(dependencies: GatewayDependencies, prefer: str | None) -> float:
    return preferred_wait(prefer, dependencies.settings.run_wait_s) or dependencies.settings.run_wait_s


def _name(text: str) -> str:
    """Return a network's name from the path; a text that can't be one names nothing."""
    if not _NAME.fullmatch(text):
        raise ProblemError(problem("network_not_found", "that is not a network's name"))
    return text
