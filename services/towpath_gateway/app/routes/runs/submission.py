"""Runs: submit, list, look at, follow, stop."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send

from towpath_contracts import ids, rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.events.cloud_events import BATCH_TYPE
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.run_limits import MAX_DEPTH, MAX_STEPS_CAP
from towpath_contracts.runs.statuses import FINAL_STATUSES, RunStatus
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.runs.tree import GetTree, RunTreeNode
from towpath_contracts.runs.views import ActionDone, CancelRun, ExecutionHistory, GetHistory, ListRuns, RunPage, RunView
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_gateway.app.ag_ui_stream import AgUiStream
from towpath_gateway.app.asking_stream import site_of
from towpath_gateway.app.cloud_event_requests import EVENT_BODY, CloudEventRoute
from towpath_gateway.app.dependencies import (
    ClientSpan,
    Dependencies,
    GatewayDependencies,
    RunsReader,
    RunsWriter,
    documented,
    json_answer,
    require_reading_of_continued,
)
from towpath_gateway.app.event_stream import RunStream, RunTreeFraming, SingleRunFraming, StreamFraming
from towpath_gateway.app.stream_pace import PageTurns
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.app.typed_frames import TypedRunFraming, TypedTreeFraming
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.event_batches import event_batch
from towpath_gateway.core.headers import (
    chosen_types,
    idempotency_key,
    last_event_id,
    last_tree_event_id,
    last_typed_id,
    last_typed_tree_id,
    preferred_wait,
    wants_event_batch,
    wants_stream,
)
from towpath_readings.effects import TELLS_EFFECTS
from towpath_readings.stream.live import LiveStream

router = APIRouter(route_class=BoundedJsonRoute, tags=["runs"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page of events, or with Accept: text/event-stream the events as they happen",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": "id: 1\nevent: run_created\ndata: {…}\n\nevent: end\ndata: {…}\n\n",
            },
            BATCH_TYPE: {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    }
}

IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="The same key and body give the same run for 24 hours."),
]
Prefer = Annotated[str | None, Header(description="`wait=N` waits up to N seconds (at most 30) for the run's end.")]


RunKind = Literal["network", "swarm", "goal", "background", "plan"]


_DETAILED = "Stream typed events (text, tool_call, tool_result, step, …); false: text and tool_call alone"
_FORMAT = "`ag-ui`: a stream of AG-UI's events, from `after` to the end or to what a person has to decide"
_EVENT_TYPES = "Which types of typed events, commas between; the error that ends a run is always sent"


class CancelRunBody(ClientMessage):
    """Why a run should stop."""

    reason: str = Field(default="", max_length=2_000)


def with_key(task: SubmitTask, header: str | None) -> SubmitTask:
    """Return *task* with the idempotency key of the request."""
    key = idempotency_key(header, task.idempotency_key)
    return task if key == task.idempotency_key else task.model_copy(update={"idempotency_key": key})


def run_headers(run_id: UUID, trace_id: str) -> dict[str, str]:
    """Return where the run is, and its trace."""
    return {"Location": f"/v1/runs/{run_id}", **trace_header(run_id, trace_id)}


def trace_header(run_id: UUID, trace_id: str) -> dict[str, str]:
    """Return where the run is in which trace (W3C Trace Context level 2, `traceresponse`)."""
    trace = UUID(hex=trace_id) if trace_id else None
    return {"traceresponse": ids.traceparent(run_id, "run", trace=trace)}


async def submit_run(
    task: SubmitTask,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
    key: IdempotencyKey = None,
    prefer: Prefer = None,
) -> Response:
    """Accept a task. The run is safe once this answers; the answer says where it is.

    A task may come as a CloudEvent 1.0, in structured or binary form; its source and id are the idempotency key.
    """
    return await submit_task(with_key(task, key), dependencies, principal, span, prefer)


router.add_api_route(
    "/v1/runs",
    submit_run,
    methods=["POST"],
    route_class_override=CloudEventRoute,
    status_code=202,
    response_model=RunAccepted,
    responses={
        **documented(
            *("network_not_found", "idempotency_conflict", "overloaded", "request_too_large", "grant_too_large"),
            *("run_not_found", "run_erased", "run_not_ended", "run_continued", "reply_refused"),
        ),
        200: {"description": "The run ended within the wait", "model": RunView},
    },
    summary="Submit a task",
    openapi_extra=EVENT_BODY,
)


async def submit_task(
    task: SubmitTask,
    dependencies: GatewayDependencies,
    principal: Principal,
    span: RemoteSpan | None,
    prefer: str | None,
) -> Response:
    """Submit *task* and answer with where its run is, or with the run where it ends within the wait of *prefer*."""
    require_reading_of_continued(principal, task)
    accepted = await dependencies.platform.submit(principal.caller, task, span)
    headers = run_headers(accepted.run_id, accepted.trace_id)
    wait_s = preferred_wait(prefer)
    if wait_s:
        headers["Preference-Applied"] = f"wait={wait_s:.0f}"
        view = await dependencies.platform.wait_for_end(principal.project, accepted.run_id, wait_s)
        if view is not None and view.status in FINAL_STATUSES:
            return json_answer(await dependencies.platform.with_effects(view), headers=headers)
    return json_answer(accepted, status=202, headers=headers)


@router.get("/v1/runs", response_model=RunPage, responses=documented(), summary="List runs, newest first")
async def list_runs(
    dependencies: Dependencies,
    principal: RunsReader,
    status: Annotated[RunStatus | None, Query()] = None,
    network: Annotated[str | None, Query(max_length=128)] = None,
    label: Annotated[str | None, Query(max_length=256, description="`key=value`")] = None,
    kind: Annotated[RunKind | None, Query()] = None,
    parent_run_id: Annotated[UUID | None, Query(description="Only children of this run")] = None,
    root_run_id: Annotated[UUID | None, Query(description="Only runs below this one, which a caller submitted")] = None,
    depth: Annotated[int | None, Query(ge=0, le=MAX_DEPTH, description="0: only what callers submitted")] = None,
    thread_id: Annotated[
        UUID | None, Query(description="Only this run, which begins a thread, and that thread")
    ] = None,
    before: Annotated[UUID | None, Query(description="`next_before` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Return a page of the project's runs."""
    request = ListRuns(
        project=principal.project,
        status=status,
        network=network,
        label=label,
        kind=kind,
        parent_run_id=parent_run_id,
        root_run_id=root_run_id,
        depth=depth,
        thread_id=thread_id,
        before=before,
        limit=limit,
    )
    return json_answer(await dependencies.platform.request(rpc.LIST_RUNS, request))


@router.get(
    "/v1/runs/{run_id}",
    response_model=RunView,
    responses=documented("run_not_found", "run_erased"),
    summary="Look at a run",
)
async def get_run(run_id: UUID, dependencies: Dependencies, principal: RunsReader, prefer: Prefer = None) -> Response:
    """Return a run; with `Prefer: wait=N` as soon as it has ended, or as it stands after N seconds."""
    wait_s = preferred_wait(prefer)
    view = await dependencies.platform.wait_for_end(principal.project, run_id, wait_s) if wait_s else None
    if view is None or view.status in TELLS_EFFECTS:
        view = await dependencies.platform.run(principal.project, run_id, effects=True)
    view = await dependencies.platform.with_untaken_calls(view)
    return json_answer(view, headers=trace_header(run_id, view.trace_id))


@router.get(
    "/v1/runs/{run_id}/events",
    response_model=EventPage,
    responses={**documented("run_not_found", "run_erased", "overloaded"), **_STREAM},
    summary="Read or follow the events of a run",
)
async def get_events(
    run_id: UUID,
    request: Request,
    dependencies: Dependencies,
    principal: RunsReader,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    wait: Annotated[int, Query(ge=0, le=30, description="Seconds to wait for the first event of a page")] = 0,
    children: Annotated[bool, Query(description="Stream the runs below this one too")] = False,
    deltas: Annotated[bool, Query(description="Stream what a model is writing too, before it counts")] = False,
    detailed: Annotated[bool | None, Query(description=_DETAILED)] = None,
    event_types: Annotated[str | None, Query(max_length=256, description=_EVENT_TYPES)] = None,
    as_format: Annotated[Literal["ag-ui"] | None, Query(alias="format", description=_FORMAT)] = None,
    last_event: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """Return events with seq > `after` in order, each exactly once; a dropped stream resumes with Last-Event-ID.

    With `children`, which streams only, each event says whose it is (`run_id`, `path`). With `deltas` there are
    events `delta` and `superseded` between the others, without ids: they are sent once, and may be lost. With
    `detailed`, true or false, a stream has typed events in the place of the log's: those of the Python client's stream.
    With `format=ag-ui` it is a stream of one AG-UI run. A page may be had as a batch of CloudEvents, by Accept.
    """
    typed = detailed is not None or event_types is not None
    if as_format is not None:
        if children or typed:
            raise ProblemError(problem("request_invalid", "format has no children, detailed and event_types"))
        view = await dependencies.platform.run(principal.project, run_id)
        start = last_event_id(last_event, after)
        events = AgUiEvents(run_id, view.network, after=start, site=site_of(dependencies, request))
        return AgUiStream(dependencies, principal, run_id, events, after=start, deltas=deltas)
    if not wants_stream(request.headers.get("accept")):
        if children or deltas or typed:
            named = "children, deltas, detailed and event_types"
            raise ProblemError(problem("request_invalid", f"{named} are for streams: text/event-stream"))
        as_batch = wants_event_batch(request.headers.get("accept"))  # refused before anything is waited for
        page = await dependencies.readings.page(principal.project, run_id, after, limit, wait * 1_000)
        if not as_batch:
            return json_answer(page)
        view = await dependencies.platform.run(principal.project, run_id)
        return Response(event_batch(page, view), media_type=BATCH_TYPE)
    if children and after:
        raise ProblemError(problem("request_invalid", "a stream with children resumes with Last-Event-ID alone"))
    if typed:
        types = chosen_types(event_types)
        start, framing = _typed(run_id, last_event, after, children, partial(_live, detailed is not False, types))
        return _EventStream(dependencies, principal, run_id, framing, start, read_from=0, deltas=deltas)
    if children:
        sent = last_tree_event_id(last_event)
        start = sent.get(run_id, 0)
        tree = RunTreeFraming(run_id, sent)
        return _EventStream(dependencies, principal, run_id, tree, start, read_from=0, deltas=deltas)
    start = last_event_id(last_event, after)
    single = SingleRunFraming(run_id)
    return _EventStream(dependencies, principal, run_id, single, start, read_from=start, deltas=deltas)


def _live(detailed: bool, types: frozenset[str] | None) -> LiveStream:
    return LiveStream(detailed=detailed, event_types=types)


def _typed(
    run_id: UUID, last_event: str | None, after: int, children: bool, new_stream: Callable[[], LiveStream]
) -> tuple[int, StreamFraming]:
    """Return how many events of the run a client has, and how its typed stream goes on."""
    if children:
        sent, items = last_typed_tree_id(last_event)
        return sent.get(run_id, 0), TypedTreeFraming(run_id, new_stream, sent, items)
    start, done = last_typed_id(last_event, after)
    return start, TypedRunFraming(run_id, new_stream, start, done)


@router.post(
    "/v1/runs/{run_id}/cancel",
    status_code=202,
    response_model=ActionDone,
    responses=documented("run_not_found", "run_erased", "run_finished", "run_unreadable"),
    summary="Ask a run to stop",
)
async def cancel_run(
    run_id: UUID, dependencies: Dependencies, principal: RunsWriter, stop: CancelRunBody | None = None
) -> Response:
    """Ask a run to stop. It is `cancelled` once no call of it can start any more."""
    reason = stop.reason if stop is not None else ""
    request = CancelRun(project=principal.project, run_id=run_id, reason=reason, **principal.named())
    return json_answer(await dependencies.platform.request(rpc.CANCEL_RUN, request), status=202)


@router.get(
    "/v1/runs/{run_id}/tree",
    response_model=RunTreeNode,
    responses=documented("run_not_found", "run_erased"),
    summary="A run and its child runs",
)
async def get_tree(run_id: UUID, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the run with everything below it, children in the order in which they were started.

    Of more than 500 runs those that stand deepest, and began last, are left out, and `truncated` says so.
    """
    return json_answer(
        await dependencies.platform.request(rpc.RUN_TREE, GetTree(project=principal.project, run_id=run_id))
    )


@router.get(
    "/v1/runs/{run_id}/history",
    response_model=ExecutionHistory,
    responses=documented("run_not_found", "run_erased"),
    summary="The execution history of a run",
)
async def get_history(
    run_id: UUID,
    dependencies: Dependencies,
    principal: RunsReader,
    after_step: Annotated[int, Query(ge=-1, description="`next_after_step` of the page before")] = -1,
    limit: Annotated[int | None, Query(ge=1, le=MAX_STEPS_CAP, description="At most so many steps")] = None,
) -> Response:
    """Return the history as recorded so far; `seq` says how far it has read the log."""
    await dependencies.platform.run(principal.project, run_id)
    request = GetHistory(project=principal.project, run_id=run_id, after_step=after_step, limit=limit)
    try:
        return json_answer(await dependencies.platform.request(rpc.GET_HISTORY, request))
    except ProblemError as error:
        if error.problem.code != "run_not_found":
            raise
    return json_answer(ExecutionHistory(seq=0, history=None, steps=()))  # the run is there, its history is not yet


class _EventStream(Response):
    """The frames of a run for a client, which count as one of its streams from before the first page is read."""

    media_type = "text/event-stream"

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        framing: StreamFraming,
        start: int,
        *,
        read_from: int,
        deltas: bool,
    ) -> None:
        """The client has *start* events of the run; those after *read_from* are given to *framing*."""
        super().__init__()
        self._dependencies = dependencies
        self._principal = principal
        self._run_id = run_id
        self._framing = framing
        self._start = start
        self._read_from = read_from
        self._deltas = deltas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises ProblemError before anything is sent."""
        with (
            self._dependencies.stream_shares.held(self._principal),
            self._dependencies.stream_pace.stream_of(self._principal) as turns,
            self._dependencies.metrics.streams.track_inprogress(),
        ):
            stream = await self._open(turns)
            headers = {"X-Accel-Buffering": "no"}
            answer = StreamingResponse(stream.frames(), media_type=self.media_type, headers=headers)
            await answer(scope, receive, send)

    async def _open(self, turns: PageTurns) -> RunStream:
        platform, project = self._dependencies.platform, self._principal.project
        async with turns.opening():
            first = await platform.page(project, self._run_id, self._read_from)
        if self._start > first.seq:
            raise ProblemError(problem("request_invalid", f"the run has {first.seq} events, not {self._start}"))
        return RunStream(platform, project, first, self._framing, turns, after=self._read_from, deltas=self._deltas)
