"""What people do with a run: stop it, hold it, tell it something, fork it from a step, continue what it answered.

Each is one request of the API, which decides whether this caller may and whether the run is in a state for it.
"""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done
from towpath_console.pages.runs.history import require_run_id
from towpath_contracts.problems.registry import REGISTRY

STEERED = {"pause": "The run is paused.", "resume": "The run goes on."}


async def cancel(asked: Asked, form: Mapping[str, str]) -> Done:
    """Cancel a run."""
    run_id = asked.path["run_id"]
    await asked.api.post(f"/v1/runs/{run_id}/cancel", _reason(form))
    return Done(f"/runs/{run_id}", "The run is being cancelled.")


async def steer(asked: Asked, form: Mapping[str, str]) -> Done:
    """Pause a run, or let it go on."""
    run_id, act = asked.path["run_id"], asked.path["act"]
    if act not in STEERED:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such action", "detail": act})
    await asked.api.post(f"/v1/runs/{run_id}/{act}", _reason(form))
    return Done(f"/runs/{run_id}", STEERED[act])


async def note(asked: Asked, form: Mapping[str, str]) -> Done:
    """Give the model a note."""
    run_id = asked.path["run_id"]
    await asked.api.post(f"/v1/runs/{run_id}/note", {"text": form.get("text", "")})
    return Done(f"/runs/{run_id}", "The model reads the note with its next decision.")


async def fork(asked: Asked, form: Mapping[str, str]) -> Done:
    """Start a run that shares what happened before a step, and go there."""
    step = form.get("from_step", "")
    options: dict[str, Any] = {"from_step": int(step) if step.isascii() and step.isdecimal() else step}
    if form.get("note"):
        options["note"] = form["note"]
    accepted = await asked.api.post(f"/v1/runs/{asked.path['run_id']}/fork", options)
    return Done(f"/runs/{accepted['run_id']}", f"Forked from step {step}.")


async def retry(asked: Asked, form: Mapping[str, str]) -> Done:
    """Begin the task of a run anew, by the request that does it to many, and go to the run that does."""
    run_id = asked.path["run_id"]
    require_run_id(run_id)
    body = {"action": "retry", "run_ids": [run_id], "reason": form.get("reason", "")}
    (result,) = (await asked.api.post("/v1/runs/bulk", body))["results"]
    if result["code"]:
        known = REGISTRY.get(result["code"])
        title, remedy = (known.title, known.remedy) if known else ("It was not begun anew", "")
        problem = {"code": result["code"], "title": title, "detail": result["detail"], "remedy": remedy}
        raise ApiRefusalError(known.status if known else 409, problem)
    return Done(f"/runs/{result['new_run_id']}", f"This run does the task of {run_id[:8]} anew.")


async def reply(asked: Asked, form: Mapping[str, str]) -> Done:
    """Continue a run that has ended by a message, and go to the run that answers it."""
    run_id = asked.path["run_id"]
    accepted = await asked.api.post(f"/v1/runs/{run_id}/messages", {"content": form.get("content", "")})
    return Done(f"/runs/{accepted['run_id']}", "The message was accepted; this run answers it.")


def _reason(form: Mapping[str, str]) -> dict[str, str] | None:
    return {"reason": form["reason"]} if form.get("reason") else None


ACTIONS = (
    ActionRoute("/runs/{run_id}/cancel", cancel, "runs:write"),
    ActionRoute("/runs/{run_id}/note", note, "runs:write"),
    ActionRoute("/runs/{run_id}/fork", fork, "runs:write"),
    ActionRoute("/runs/{run_id}/reply", reply, "runs:write"),
    ActionRoute("/runs/{run_id}/retry", retry, "runs:write"),
    ActionRoute("/runs/{run_id}/steering/{act}", steer, "runs:operate"),
)
