"""Objectives in simulated worlds: what is pursued, and what a model wants that pursues it."""

import random
from typing import Any

from tests.support.engine.machine import respond, use, use_all

from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.networks.background import (
    BackgroundRunSettings,
    BackgroundRunTask,
    WorkspaceMount,
    WorkspaceMountFile,
)

OWN = ("plan_setup", "plan_add_step", "plan_mark_step", "workspace_write", "workspace_read", "workspace_grep")
"""Tools of the platform that objectives are pursued with."""


def objective(number: int) -> BackgroundRunTask:
    """What a task pursues in the worlds of objectives; each brings a file."""
    files = (WorkspaceMountFile(path="notes.txt", content=f"the {number}th\n"),)
    settings = BackgroundRunSettings(max_steps=6, max_failures=3)
    return BackgroundRunTask(
        objective=f"Do {number}.", mounts=(WorkspaceMount(mount_path="in", files=files),), settings=settings
    )


def objective_decision(request: DecisionRequest, chance: random.Random) -> dict[str, Any]:
    """What a model wants that pursues an objective: a plan, files, other tools, and the end."""
    draw = chance.random()
    if request.kind is DecisionKind.SUMMARIZE:
        return {"summary": "It is over."} if draw < 0.9 else {"nothing": 1}
    if request.kind is DecisionKind.REFLECT:
        return {"verdict": chance.choice(("continue", "retry", "complete", "abandon")), "rationale": "so it is"}
    if request.step == 1:
        return use("plan_setup", objective="Do it.", steps=[{"title": "one"}])
    if draw < 0.1 + 0.1 * request.step:
        return respond("done")
    if draw < 0.5:
        return use("workspace_write", path=f"{chance.choice('ab')}.txt", content=chance.choice("xyz"))
    if draw < 0.7:
        return use("workspace_read", path=chance.choice(("in/notes.txt", "a.txt", "nowhere")))
    if draw < 0.9:
        add, look = ("plan_add_step", {"title": "more"}), ("workspace_grep", {"text": "x"})
        return use_all(add, ("pay", {"text": chance.choice("ab")}), look, add)
    return use("plan_mark_step", step_id="S001", status="done")
