"""Carries out calls of tools: each is a request of the HTTP API, or a few of them."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, InputRequiredResult, InputResponses

from towpath_console.api import Api, ApiCaller, ApiRefusalError
from towpath_contracts.problems.near_names import suggest_or_list
from towpath_gateway.app.protocols.mcp_server import gate_questions
from towpath_gateway.app.protocols.mcp_server.client_features import (
    Context,
    asks_by_form,
    request_of,
    site_of,
    takes_tasks,
)
from towpath_gateway.app.protocols.mcp_server.results import data_result, refused_result, run_result, unfollowed_result
from towpath_gateway.app.protocols.mcp_server.run_wait import WaitedRun, look_at, wait_for_run
from towpath_gateway.app.protocols.mcp_server.task_methods import created_task
from towpath_gateway.app.protocols.mcp_server.tool_list import (
    MAX_NAME_CHARS,
    ToolDirectory,
    platform_arguments,
)

Answer = CallToolResult | InputRequiredResult | dict[str, Any]

WAIT_S = 45.0
"""How long a call waits for its run unless it says so: common clients give a call up after 60 s."""

SHOWN = 20
"""Entries of a list unless more are asked for: models pay for every one."""


class ToolCalls:
    """Answers calls; *own_url* is where browsers find the gateway, empty where nobody says so."""

    def __init__(
        self,
        caller: ApiCaller,
        directory: ToolDirectory,
        stopping: asyncio.Event,
        *,
        most_s: float,
        own_url: str,
    ) -> None:
        """*most_s* is how long a call may wait."""
        self._caller = caller
        self._directory = directory
        self._stopping = stopping
        self._most_s = most_s
        self._own_url = own_url

    async def call(self, context: Context, params: CallToolRequestParams) -> Answer:
        """Answer one call; what the API refuses is an error of the tool, with its code and remedy."""
        api = self._caller.on_behalf_of(request_of(context))
        arguments = dict(params.arguments or {})
        try:
            known = platform_arguments(params.name)
            network = None
            if known is None:
                network, known = await self._network(api, params.name)
            _refuse_unknown(arguments, known)
            if network is not None or params.name == "run_network":
                named = arguments if network is None else {**arguments, "network": network}
                return await self._run(api, context, params, named)
            return await self._platform_tool(api, context, params.name, arguments)
        except ApiRefusalError as error:
            return refused_result(error.problem)

    async def _network(self, api: Api, tool: str) -> tuple[str, frozenset[str]]:
        found = await self._directory.find_network(api, tool)
        if found is None:
            hint = suggest_or_list(tool, await self._directory.names(api))
            raise MCPError(INVALID_PARAMS, f"there is no tool {tool[:MAX_NAME_CHARS]!r}{hint}")
        return found

    async def _platform_tool(self, api: Api, context: Context, name: str, arguments: dict[str, Any]) -> CallToolResult:
        match name:
            case "get_run":
                return data_result(await api.get(f"/v1/runs/{_needed(arguments, 'run_id')}"))
            case "follow_run":
                return await self._follow(api, context, arguments)
            case "list_approvals":
                return data_result(await api.get("/v1/gates", **_query(arguments)))
            case "search_audit":
                return data_result(await api.get("/v1/audit", **_query(arguments)))
            case _:
                return data_result(await _decide(api, arguments))

    async def _follow(self, api: Api, context: Context, arguments: dict[str, Any]) -> CallToolResult:
        seconds = self._seconds(arguments)
        run_id = _needed(arguments, "run_id")
        waited = await wait_for_run(api, run_id, seconds, self._stopping, _reporter(context), after=None)
        return run_result(waited, site_of(context, self._own_url))

    async def _run(
        self, api: Api, context: Context, params: CallToolRequestParams, arguments: dict[str, Any]
    ) -> Answer:
        seconds = self._seconds(arguments)
        if params.request_state is not None or params.input_responses:
            run_id, after = _run_of(params.request_state)
            answers = gate_questions.checked_answers(params.input_responses or {})
            try:
                return await self._go_on(api, context, run_id, answers, seconds, after)
            except ApiRefusalError as error:
                return unfollowed_result({"run_id": run_id}, error.problem)
        accepted = await api.post("/v1/runs", arguments)
        if takes_tasks(context):
            return created_task(accepted)
        try:
            waited = await wait_for_run(api, accepted["run_id"], seconds, self._stopping, _reporter(context))
            return await self._answer(api, context, waited)
        except ApiRefusalError as error:  # the run is there all the same: who calls again would have a second one
            return unfollowed_result(accepted, error.problem)

    async def _go_on(
        self, api: Api, context: Context, run_id: str, answers: InputResponses, seconds: float, after: int
    ) -> CallToolResult | InputRequiredResult:
        """Take a person's answers and wait for the run on; no second one is submitted."""
        for key, answer in answers.items():
            try:
                await gate_questions.decide(api, key, answer)
            except ApiRefusalError as error:
                return run_result(await look_at(api, run_id), site_of(context, self._own_url), refused=error.problem)
            if getattr(answer, "action", "accept") != "accept":
                return run_result(await look_at(api, run_id), site_of(context, self._own_url))
        waited = await wait_for_run(api, run_id, seconds, self._stopping, _reporter(context), after=after)
        return await self._answer(api, context, waited)

    async def _answer(self, api: Api, context: Context, waited: WaitedRun) -> CallToolResult | InputRequiredResult:
        """Return how the run stands, or what its person is asked where the client can ask them."""
        if waited.gates and asks_by_form(context):
            asked = gate_questions.questions(waited.gates, await api.get("/v1/me"))
            if asked:
                return InputRequiredResult(input_requests=asked, request_state=_state(waited.view))
        return run_result(waited, site_of(context, self._own_url))

    def _seconds(self, arguments: dict[str, Any]) -> float:
        """Take how long to wait out of *arguments*."""
        wanted = arguments.pop("wait_s", WAIT_S)
        if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not wanted >= 0:
            raise ApiRefusalError.of("request_invalid", "wait_s is a number of seconds, 0 or more")
        return float(min(wanted, self._most_s))  # a whole number may be larger than any float


def _reporter(context: Context) -> Any:
    async def report(progress: float, message: str) -> None:
        await context.session.report_progress(progress, None, message)

    return report


def _refuse_unknown(arguments: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in arguments:
        if name not in known:
            hint = suggest_or_list(name, sorted(known))
            raise ApiRefusalError.of("request_invalid", f"the tool has no argument {name[:64]!r}{hint}")


def _needed(arguments: Mapping[str, Any], name: str) -> str:
    value: Any = arguments.get(name)
    try:
        return str(UUID(value))  # nothing else may stand in a path: %2F in it would be another path
    except (ValueError, TypeError, AttributeError):
        raise ApiRefusalError.of("request_invalid", f"{name} is missing, or no id") from None


def _query(arguments: Mapping[str, Any]) -> dict[str, str | int | None]:
    wrong = [name for name, value in arguments.items() if not isinstance(value, str | int) or isinstance(value, bool)]
    if wrong:
        raise ApiRefusalError.of("request_invalid", f"{', '.join(wrong)}: a text or a whole number is needed")
    return {"limit": SHOWN, **arguments}


async def _decide(api: Api, arguments: dict[str, Any]) -> dict[str, Any]:
    word: dict[str, Any] = {name: arguments[name] for name in ("reason", "digest", "args") if name in arguments}
    word["verdict"] = arguments.get("verdict")
    return await gate_questions.decide_by_tool(api, _needed(arguments, "gate_id"), word)


def _state(view: Mapping[str, Any]) -> str:
    """Return what a client sends back with an answer: no secret, and nothing is believed for its sake.

    Whoever names another run here reads what its key may read anyway.
    """
    return json.dumps({"run_id": view["run_id"], "seq": view["seq"]})


def _run_of(state: str | None) -> tuple[str, int]:
    """Return the run that a client answers for, and how much of its log was told; raises ApiRefusalError."""
    try:
        given = json.loads(state or "")
        return str(UUID(given["run_id"])), int(given["seq"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ApiRefusalError.of("request_invalid", "requestState is not what this tool gave") from None
