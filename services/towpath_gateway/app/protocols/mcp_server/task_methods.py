"""Runs as tasks of the Tasks extension: a client that declares it gets a handle at once, and polls.

The run is the task: its id is the run's, and nothing is kept here. Who may look at, answer or cancel one is decided by
the API. Tasks are told by polling alone; `notifications/tasks` are not sent.
"""

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    InputResponses,
    RequestParams,
)
from pydantic import Field

from towpath_console.api import Api, ApiCaller, ApiRefusalError
from towpath_gateway.app.protocols.mcp_server import gate_questions
from towpath_gateway.app.protocols.mcp_server.client_features import (
    TASKS,
    Context,
    asks_by_form,
    is_modern,
    request_of,
    site_of,
    takes_tasks,
)
from towpath_gateway.app.protocols.mcp_server.results import run_result
from towpath_gateway.app.protocols.mcp_server.run_wait import WaitedRun, look_at

POLL_MS = 1_000
"""How often clients are asked to look."""


class TaskParams(RequestParams):
    """Which task."""

    task_id: str = Field(alias="taskId", pattern=r"^[0-9a-f-]{36}$")


class UpdateTaskParams(TaskParams):
    """Answers to what a task asked, by key."""

    input_responses: InputResponses = Field(alias="inputResponses")


class TaskMethods:
    """Serves `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, caller: ApiCaller, own_url: str) -> None:
        """*own_url* is where browsers find the gateway, empty where nobody says so."""
        self._caller = caller
        self._own_url = own_url

    async def get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Return how a task stands, with what it asks or answered."""
        api = self._api(context)
        try:
            waited = await look_at(api, params.task_id)
            asked = gate_questions.questions(waited.gates, await api.get("/v1/me")) if waited.gates else {}
        except ApiRefusalError as error:
            raise refusal(error) from error
        return self._standing(context, waited, asked if asks_by_form(context) else {})

    async def update(self, context: Context, params: UpdateTaskParams) -> dict[str, Any]:
        """Carry out answers; those to what is no longer asked are passed over."""
        api = self._api(context)
        try:
            answers = gate_questions.checked_answers(params.input_responses)
            await api.get(f"/v1/runs/{params.task_id}")
            for key, answer in answers.items():
                await gate_questions.decide(api, key, answer)
        except ApiRefusalError as error:
            raise refusal(error) from error
        return {}

    async def cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Ask the run to stop; nothing is wrong with one that has ended."""
        try:
            await self._api(context).post(f"/v1/runs/{params.task_id}/cancel", {"reason": "tasks/cancel"})
        except ApiRefusalError as error:
            if error.problem.get("code") != "run_finished":
                raise refusal(error) from error
        return {}

    def _api(self, context: Context) -> Api:
        if not is_modern(context):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", context.method)
        if not takes_tasks(context):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", needed)
        return self._caller.on_behalf_of(request_of(context))

    def _standing(self, context: Context, waited: WaitedRun, asked: dict[str, Any]) -> dict[str, Any]:
        view = waited.view
        begun, changed = view["created_at"], view.get("ended_at") or view.get("started_at") or view["created_at"]
        words = "; ".join(view.get("waits") or ()) or f"The run is {view['status']}."
        if view["status"] == "cancelled":
            return _task(view["run_id"], "cancelled", begun, changed, view.get("message") or words)
        if waited.has_ended:
            result = run_result(waited, site_of(context, self._own_url))
            written = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            return {**_task(view["run_id"], "completed", begun, changed, words), "result": written}
        if not asked:
            return _task(view["run_id"], "working", begun, changed, words)
        requests = {key: one.model_dump(by_alias=True, mode="json", exclude_none=True) for key, one in asked.items()}
        return {**_task(view["run_id"], "input_required", begun, changed, words), "inputRequests": requests}


def created_task(accepted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the handle of a run that was accepted: it is stored, so that it can be asked for from now on."""
    begun = accepted["created_at"]
    words = f"The run is {accepted['status']}."
    return {"resultType": "task", **_task(accepted["run_id"], "working", begun, begun, words)}


def _task(run_id: str, status: str, begun: str, changed: str, words: str) -> dict[str, Any]:
    return {
        "taskId": run_id,
        "status": status,
        "statusMessage": words,
        "createdAt": begun,
        "lastUpdatedAt": changed,
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }


def refusal(error: ApiRefusalError) -> MCPError:
    """Return what the API refused as an error of the protocol."""
    problem = error.problem
    return MCPError(INVALID_PARAMS, f"{problem.get('code')}: {problem.get('detail', '')}", dict(problem))
