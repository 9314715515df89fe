"""Reads the history of a run by parts, and what it says of steps, calls and transfers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from towpath_console.api import Api, ApiRefusalError
from towpath_console.drawings.graph import GraphVisits
from towpath_contracts.runs.statuses import FINAL_STATUSES

MOST_ANSWERS = 12
"""Answers of the API that one page is made from: an answer holds at least one step, and usually some hundred."""

DELEGATE = "delegate_to_"
"""The tools by which the lead of a team asks its members begin so."""

Step = dict[str, Any]


class HistoryPart(NamedTuple):
    """Steps in their order, with their calls; `whole` says that no later step is recorded.

    `seq` is how far history has read the log of the run, which it follows: a run may have ended that is not yet in it.
    """

    steps: list[Step]
    calls: list[dict[str, Any]]
    whole: bool
    seq: int


class HistorySource(Protocol):
    """Where history is read from: the API of a page, or a client elsewhere."""

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Return what is at *path*."""


async def read_steps(api: HistorySource, run_id: str, after: int, most: int) -> HistoryPart:
    """Return at most *most* steps behind step *after*, asked for in as many parts as it takes."""
    steps: list[Step] = []
    calls: list[dict[str, Any]] = []
    following: int | None = after
    seq = 0
    for _ in range(MOST_ANSWERS):
        found = await api.get(f"/v1/runs/{run_id}/history", after_step=following, limit=most - len(steps))
        steps += found["steps"]
        calls += found.get("tool_executions") or ()
        following, seq = found.get("next_after_step"), found.get("seq", 0)
        if following is None or len(steps) >= most:
            break
    return HistoryPart(steps, calls, following is None, seq)


async def read_step(api: Api, run_id: str, number: int) -> HistoryPart:
    """Return one step with its calls; raises the ApiRefusalError of a page where there is none."""
    found = await read_steps(api, run_id, number - 1, 1)
    if not found.steps or found.steps[0]["step_number"] != number:
        detail = f"run {run_id} has no step {number} yet"
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such step", "detail": detail})
    return found


def require_run_id(text: str) -> None:
    """Raise where *text* of a form or query is no id of a run: it would be another path of the API."""
    if len(text) != 36 or not all(sign in "0123456789abcdef-" for sign in text):
        problem = {"code": "request_invalid", "title": "This is no id of a run", "detail": text[:64]}
        raise ApiRefusalError(422, problem)


def calls_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a step, in their order."""
    result = step.get("result") or {}
    return [result[place] for place in sorted(result, key=int)] if isinstance(result, dict) else []


def action_of(step: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return what a step decided: the action and its details; empty while nothing is decided."""
    decided = step.get("action")
    if not isinstance(decided, dict):
        return "", {}
    details = decided.get("action_details")
    return str(decided.get("action") or ""), details if isinstance(details, dict) else {}


def proposed_calls(step: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that the model asked for in a step, in their order: the tool, and the arguments."""
    action, details = action_of(step)
    if action != "USE_TOOL":
        return []
    listed = details["calls"] if isinstance(details.get("calls"), list) else [details]
    calls = [one for one in listed if isinstance(one, dict)]
    return [(str(one.get("tool_name")), one.get("tool_params") or {}) for one in calls]


def tools_of(step: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a step calls."""
    action, details = action_of(step)
    if action != "USE_TOOL":
        return []
    called = [str(call.get("tool") or "?") for call in calls_of(step)]
    listed = [str(one.get("tool_name") or "?") for one in details.get("calls") or () if isinstance(one, dict)]
    return called or listed or [str(details.get("tool_name") or "?")]


def what_of(step: Mapping[str, Any]) -> str:
    """Say in a few words what a step did."""
    action, details = action_of(step)
    match action:
        case "ROUTE_TO_AGENT":
            return f"hands over to {details.get('target_agent_name', '?')}"
        case "USE_TOOL":
            return f"calls {', '.join(tools_of(step))}"
        case "RESPOND":
            return "answers"
        case "":
            return "is being decided" if step.get("success") is None else "could not decide"
        case other:
            return other.replace("_", " ").lower()


def error_of(step: Mapping[str, Any]) -> str:
    """Return why a step failed, in words; empty where it did not."""
    error = step.get("error")
    if isinstance(error, dict):
        return str(error.get("detail") or error.get("code") or "")
    return str(error or "")


def visits_of(steps: Sequence[Step], run: Mapping[str, Any]) -> GraphVisits:
    """Return what a run did of its network: control that went from one agent to another, and questions to members."""
    edges: Counter[tuple[str, str]] = Counter()
    answered: Counter[str] = Counter()
    for number, step in enumerate(steps):
        agent = str(step["agent_id"])
        if number and steps[number - 1]["agent_id"] != agent:
            edges[str(steps[number - 1]["agent_id"]), agent] += 1
        for tool in tools_of(step):
            if tool.startswith(DELEGATE):
                edges[agent, tool.removeprefix(DELEGATE)] += 1
        if action_of(step)[0] == "RESPOND" and step.get("success"):
            answered[agent] += 1
    return GraphVisits(
        steps=Counter(str(step["agent_id"]) for step in steps),
        edges=edges,
        answered=answered,
        current="" if run["status"] in FINAL_STATUSES else str(run.get("agent_key") or ""),
    )


def sum_of(rows: Iterable[Mapping[str, Any]], name: str) -> float:
    """Return the sum of a member, where it is known."""
    return sum(row.get(name) or 0 for row in rows)
