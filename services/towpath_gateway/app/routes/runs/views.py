"""What a run's log says in other words: nodes of its model calls, messages, its goal or its plan."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.run_limits import MAX_VERSION
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import GetLlmCalls, GetRun, LlmCalls
from towpath_gateway.app.dependencies import Dependencies, RunsReader, documented, json_answer, long_json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_readings.execution_log import ExecutionLogReader, RunLogView, run_log_view
from towpath_readings.goals import GoalReader, GoalView
from towpath_readings.nodes import RunNodesReader, RunNodesView
from towpath_readings.plans import PlanReader, PlanView
from towpath_readings.transcript import RunMessages, TranscriptReader

router = APIRouter(prefix="/v1/runs/{run_id}", route_class=BoundedJsonRoute, tags=["runs"])


@router.get(
    "/nodes",
    response_model=RunNodesView,
    responses=documented("run_not_found", "run_erased"),
    summary="The state of a run, with a node for every model call",
)
async def get_nodes(
    run_id: UUID,
    dependencies: Dependencies,
    principal: RunsReader,
    calls: Annotated[bool, Query(description="Also the HTTP calls behind each node, as far as recorded")] = False,
) -> Response:
    """Return status, times, usage and cost of the run and of each of its model calls."""
    project = principal.project
    reader = RunNodesReader(run_id)
    async with dependencies.readings.log(project, run_id, reader):
        rows = await dependencies.platform.llm_calls(project, run_id, frozenset()) if calls else ()
        return await long_json_answer(dependencies, project, reader.result(rows))


@router.get(
    "/steps/{step}/model-calls",
    response_model=LlmCalls,
    responses=documented("run_not_found", "run_erased"),
    summary="The model calls of a step",
)
async def get_model_calls(
    run_id: UUID,
    step: Annotated[int, Path(ge=0, le=MAX_VERSION)],
    dependencies: Dependencies,
    principal: RunsReader,
    after: Annotated[int, Query(ge=0, le=MAX_VERSION, description="`next_after` of the page before")] = 0,
) -> Response:
    """Return what was asked of models in a step, as recorded; of a run with `debug` also prompt and answer as sent."""
    await dependencies.platform.run(principal.project, run_id)
    request = GetLlmCalls(project=principal.project, run_id=run_id, after=after, step=step)
    return json_answer(await dependencies.platform.request(rpc.GET_LLM_CALLS, request))


@router.get(
    "/goal",
    response_model=GoalView,
    responses=documented("run_not_found", "run_erased", "not_a_goal"),
    summary="How a goal run stands",
)
async def get_goal(run_id: UUID, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the task state with every step: what was planned, done and found, progress, confidence, cost."""
    reader = GoalReader(run_id)
    async with dependencies.readings.log(principal.project, run_id, reader):
        state = reader.view()
    if state is not None and state.status not in FINAL_STATUSES:  # what it waits for may stand below it
        run = await dependencies.platform.request(rpc.GET_RUN, GetRun(project=principal.project, run_id=run_id))
        state = state.model_copy(update={"status": run.status if run.status not in FINAL_STATUSES else state.status})
    if state is None:
        raise ProblemError(problem("not_a_goal", f"run {run_id} pursues no goal", run_id=str(run_id)))
    return json_answer(state)


@router.get(
    "/plan",
    response_model=PlanView,
    responses=documented("run_not_found", "run_erased", "not_a_plan"),
    summary="How a plan or workflow stands",
)
async def get_plan(run_id: UUID, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return every step with its agents: how each stands, its child run, what came of it, how long it took."""
    reader = PlanReader(run_id)
    async with dependencies.readings.log(principal.project, run_id, reader):
        view = reader.view()
    if view is None:
        raise ProblemError(problem("not_a_plan", f"run {run_id} carries out no plan", run_id=str(run_id)))
    return json_answer(view)


@router.get(
    "/execution-log",
    response_model=RunLogView,
    responses=documented("run_not_found", "run_erased"),
    summary="The execution log of a run",
)
async def get_execution_log(run_id: UUID, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return what agents decided, which calls came of it and how each ended, in previews; `tool_refs` name payloads."""
    project = principal.project
    status = (await dependencies.platform.request(rpc.GET_RUN, GetRun(project=project, run_id=run_id))).status
    reader = ExecutionLogReader(of=())
    async with dependencies.readings.log(project, run_id, reader):
        return await long_json_answer(dependencies, project, run_log_view(run_id, status, reader.log))


@router.get(
    "/messages",
    response_model=RunMessages,
    responses=documented("run_not_found", "run_erased"),
    summary="A run as a conversation",
)
async def get_messages(run_id: UUID, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return what user, models and tools wrote, the current turn included, and which calls have no result."""
    reader = TranscriptReader(run_id)
    async with dependencies.readings.log(principal.project, run_id, reader):
        return await long_json_answer(dependencies, principal.project, reader.view())
