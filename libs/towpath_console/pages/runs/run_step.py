"""One step of a run: what the model was told and said, what was called with which arguments, and which rule let it.

Each tab asks only for what it shows. What the policy says now is a trial: nothing is called, and nothing is counted.
"""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Page, PageRoute
from towpath_console.pages.runs.history import HistoryPart, Step, action_of, read_step, what_of
from towpath_console.pages.runs.run import run_view
from towpath_console.pages.shared import if_allowed, together
from towpath_contracts.text import unwrap_message

TABS = {
    "decision": "Decision",
    "prompt": "Prompt",
    "raw": "Raw answer",
    "arguments": "Arguments",
    "result": "Result",
    "policy": "Policy",
    "trace": "Trace",
}
MOST_CALLS = 20
"""Calls of one step whose record and rule are looked up: a decision has few, several attempts at a goal have more."""


async def run_step(asked: Asked) -> Page:
    """Make the page of one step."""
    api, run_id, number = asked.api, asked.path["run_id"], asked.path["step"]
    if not (number.isascii() and number.isdecimal() and len(number) < 8):
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such step", "detail": number})
    tab = asked.query.get("tab", "decision")
    if tab not in TABS:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such tab", "detail": tab})
    run = await api.get(f"/v1/runs/{run_id}")
    part = await read_step(api, run_id, int(number))
    step = part.steps[0]
    more = await _looked_up(api, tab, run, part)
    data = {"run": run, "step": step, "tool_executions": part.calls, **more}
    view = run_view(run, "timeline") | {
        "step": step,
        "what": what_of(step),
        "calls": part.calls,
        "asked": _asked(step),
        "decided": decided(step),
        "tabs": TABS,
        "shown": tab,
        "last": run["step"],
        **more,
    }
    return Page(f"Step {number}", "step.html", data, view, None if step["ended_at"] else 2.0)


async def _looked_up(api: Api, tab: str, run: Mapping[str, Any], part: HistoryPart) -> dict[str, Any]:
    """Return what a tab shows beside the step itself."""
    run_id, step = run["run_id"], part.steps[0]
    if tab in ("prompt", "raw"):
        found = await api.get(f"/v1/runs/{run_id}/steps/{step['step_number']}/model-calls")
        return {"model_calls": found["calls"]}
    if tab != "policy":
        return {}
    rules = {}
    for call in part.calls[:MOST_CALLS]:
        found = await together(
            audit=if_allowed(api.get("/v1/audit", run_id=run_id, execution_id=call["execution_id"])),
            now=as_the_rules_stand(api, run, call),
        )
        entries = found["audit"].get("entries")
        rules[str(call["execution_id"])] = {"audit": entries and list(reversed(entries)), "now": found["now"]}
    return {"rules": rules}


async def as_the_rules_stand(api: Api, run: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the policy in force says of *call*, with the rules that it tried; a refusal says why it can't."""
    question = {
        "network": run["network"],
        "agent_key": call["agent_id"],
        "tool": call["tool"],
        "args": call["args"] if isinstance(call["args"], dict) else {},
        "caller": run["caller"],
        "step": call["step_number"],
        "labels": run["labels"],
        "run_id": run["run_id"],
    }
    try:
        return await api.post("/v1/policy/check", question)
    except ApiRefusalError as error:
        return {"refusal": dict(error.problem)}


def decided(step: Step) -> dict[str, Any] | None:
    """Return what a step decided as it is read: an action with its calls, where it hands over, or what it answers."""
    action, details = action_of(step)
    if not action:
        return None
    if action == "USE_TOOL":
        listed = details.get("calls") if isinstance(details.get("calls"), list) else [details]
        calls = [one for one in listed or () if isinstance(one, dict)]
        return {
            "kind": "calls",
            "calls": [{"tool": one.get("tool_name") or "?", "args": one.get("tool_params")} for one in calls],
        }
    if action == "ROUTE_TO_AGENT":
        return {"kind": "hands over", "to": details.get("target_agent_name") or "?", "text": details.get("context")}
    if action == "RESPOND":
        return {"kind": "answers", "text": unwrap_message(details.get("payload"))}
    return {"kind": "other", "name": action.replace("_", " ").capitalize(), "details": details}


def _asked(step: Step) -> dict[str, dict[str, Any]]:
    """Return the arguments that the model asked for, by tool, where each tool is called once."""
    _, details = action_of(step)
    listed = details.get("calls") if isinstance(details.get("calls"), list) else [details]
    found: dict[str, dict[str, Any]] = {}
    for one in listed or ():
        if isinstance(one, dict) and isinstance(one.get("tool_params"), dict):
            name = str(one.get("tool_name"))
            found[name] = {} if name in found else one["tool_params"]
    return found


PAGES = (PageRoute("/runs/{run_id}/steps/{step}", run_step, "/runs"),)
