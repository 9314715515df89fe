"""One run: its answer, what it waits for, its steps on a timeline; and each step with all that is known of it."""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.drawings.timeline import TimelineRow, timeline
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import if_allowed, together

ENDED = frozenset({"completed", "failed", "cancelled"})
MOVING_S = 0.7
WAITING_S = 2.0


async def run_timeline(asked: Asked) -> Page:
    """Make the page of a run."""
    api, run_id = asked.api, asked.path["run_id"]
    found = await together(
        run=api.get(f"/v1/runs/{run_id}"),
        history=api.get(f"/v1/runs/{run_id}/history"),
        gates=if_allowed(api.get("/v1/gates", status="pending", run_id=run_id)),
    )
    run = found["run"]
    rows = _rows(found["history"]["steps"])
    view = {
        "run": run,
        "steps": found["history"]["steps"],
        "gates": found["gates"].get("gates", ()),
        "rows": rows,
        "timeline": timeline(rows),
        "answer": answer_of(run),
        "tab": "timeline",
    }
    refresh = None if run["status"] in ENDED else WAITING_S if run["status"] in ("waiting", "paused") else MOVING_S
    return Page(f"Run {run_id[:8]}", "run.html", found, view, refresh)


async def run_step(asked: Asked) -> Page:
    """Make the page of one step: what the model was told, what it said, what was called and what came back."""
    api, run_id, number = asked.api, asked.path["run_id"], asked.path["step"]
    if not number.isdecimal():
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such step", "detail": number})
    found = await together(run=api.get(f"/v1/runs/{run_id}"), history=api.get(f"/v1/runs/{run_id}/history"))
    steps = [step for step in found["history"]["steps"] if step["step_number"] == int(number)]
    if not steps:
        detail = f"run {run_id} has no step {number} yet"
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such step", "detail": detail})
    calls = [
        call | {"record": await if_allowed(api.get(f"/v1/runs/{run_id}/tools/{call['execution_id']}"))}
        for call in calls_of(steps[-1])
        if call.get("execution_id")
    ]
    data = {"run": found["run"], "step": steps[-1], "calls": calls}
    view = {"run": found["run"], "step": steps[-1], "calls": calls, "last": found["run"]["step"], "tab": "timeline"}
    return Page(f"Step {number}", "step.html", data, view)


async def cancel(asked: Asked, form: Mapping[str, str]) -> Done:
    """Cancel a run."""
    run_id = asked.path["run_id"]
    await asked.api.post(f"/v1/runs/{run_id}/cancel", {"reason": form["reason"]} if form.get("reason") else None)
    return Done(f"/runs/{run_id}", "The run is being cancelled.")


def answer_of(run: Mapping[str, Any]) -> Any:
    """Return what a run answered: its message where it has one."""
    final = run.get("final")
    return final["message"] if isinstance(final, dict) and set(final) == {"message"} else final


def calls_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a step, in their order."""
    result = step.get("result") or {}
    return [result[place] for place in sorted(result, key=int)] if isinstance(result, dict) else []


def _rows(steps: list[dict[str, Any]]) -> list[TimelineRow]:
    return [
        TimelineRow(
            number=step["step_number"],
            agent=step["agent_id"],
            epoch=step["epoch"],
            what=_what(step),
            start=step["timestamp"],
            end=step["ended_at"],
            good=step["success"],
            error=_error(step.get("error")),
        )
        for step in steps
    ]


def _what(step: Mapping[str, Any]) -> str:
    """Say in a few words what a step did."""
    decided = step.get("action") or {}
    details = decided.get("action_details") or {}
    match decided.get("action"):
        case "ROUTE_TO_AGENT":
            return f"hands over to {details.get('target_agent_name', '?')}"
        case "USE_TOOL":
            called = [str(call.get("tool", "?")) for call in calls_of(step)] or [str(details.get("tool_name", "?"))]
            return f"calls {', '.join(called)}"
        case "RESPOND":
            return "answers"
        case None:
            return "is being decided"
        case other:
            return str(other).replace("_", " ").lower()


def _error(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("detail") or error.get("code") or "")
    return str(error or "")


PAGES = (
    PageRoute("/runs/{run_id}", run_timeline, "/runs"),
    PageRoute("/runs/{run_id}/steps/{step}", run_step, "/runs"),
)
ACTIONS = (ActionRoute("/runs/{run_id}/cancel", cancel),)
