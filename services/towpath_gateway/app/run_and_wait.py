"""Submitting a task and waiting for its answer: what `POST /run` and the dry invoke share.

Giving up the wait changes nothing; the run goes on, and the problem says where it is.
"""

from uuid import UUID

from towpath_contracts.events.log import FINAL_STATUSES, LogEntry
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.run_answers import RunAnswer, RunDebug, answered_requests, run_answer, run_debug
from towpath_readings.spans import SpanLink


async def run_to_end(
    platform: PlatformClient, principal: Principal, task: SubmitTask, seconds: float, link: SpanLink | None = None
) -> RunAnswer:
    """Submit *task* and return its answer; raises ProblemError `timeout` with run_id and state after *seconds*."""
    accepted = await platform.submit(principal.caller, task, link)
    run_id, project = accepted.run_id, principal.project
    view = await platform.until_end(project, run_id, seconds)
    if view is None or view.status not in FINAL_STATUSES:
        raise ProblemError(still_running(str(run_id), accepted.status if view is None else view.status, seconds))
    entries = await platform.events(project, run_id)
    debug = await _debug(platform, project, run_id, entries) if task.debug else None
    return run_answer(view, entries, debug)


def still_running(run_id: str, status: str, seconds: float) -> Problem:
    """Return the problem of a wait that is over before its run."""
    detail = f"the run is {status} after {seconds:g} s"
    return problem("timeout", detail, run_id=run_id, extra={"status": status, "location": f"/v1/runs/{run_id}"})


async def _debug(platform: PlatformClient, project: str, run_id: UUID, entries: list[LogEntry]) -> RunDebug:
    """Return the raw texts; without the log-writer there are none, which `missing` says, and the answer stands."""
    wanted = answered_requests(entries)
    try:
        calls = await platform.llm_calls(project, run_id, wanted)
    except ProblemError as error:
        if error.problem.code not in {"unavailable", "run_not_found"}:
            raise
        calls = []
    return run_debug(calls, wanted)
