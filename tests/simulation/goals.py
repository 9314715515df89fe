"""Goals in simulated worlds: what is pursued, and what a model wants and judges that pursues it."""

import random
from typing import Any

from tests.support.engine.machine import respond, route, use, use_all

from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.networks.goal import Criterion, GoalSettings, GoalTask

TRIED = ("look", "put", "move", "purge")
"""Tools of these worlds; the last one is denied, always."""


def goal(number: int) -> GoalTask:
    """What a task is to reach in the worlds of goals: something that really happens, now and then."""
    moved = Criterion(when="results.exists(r, r.tool == 'move' && r.status == 'succeeded')")
    texts = (Criterion(text="It looks good."),) if number % 2 else ()
    return GoalTask(goal=f"Move {number}.", acceptance_criteria=(moved, *texts), settings=GoalSettings(max_steps=6))


def goal_decision(request: DecisionRequest, chance: random.Random) -> dict[str, Any]:
    """The answers of a model that pursues a goal: decisions, and assessments where it is asked for one."""
    if request.kind is DecisionKind.VALIDATE:
        listed = (request.context.assessment or {}).get("evidence") or [{"name": ""}]
        found = [{"criterion": 1, "met": chance.random() < 0.6, "evidence": listed[-1]["name"]}]
        return {"valid": chance.random() < 0.8, "criteria": found, "uncertain": chance.random() < 0.1}
    if request.kind is DecisionKind.CONFIDENCE:
        return {"confidence": chance.choice((0.1, 0.6, 0.9, "none"))}
    if request.kind is DecisionKind.PROGRESS:
        return {"progress": chance.choice((None, 0.2, 0.7))}
    draw = chance.random()
    if draw < 0.15:
        return respond(chance.choice(("done", {"answer": 42})))
    if draw < 0.7:
        call = use(chance.choice(TRIED), text=chance.choice("abcd"))
        return {**call, "uncertain": chance.random() < 0.1}
    if draw < 0.9:
        return use_all((chance.choice(TRIED), {"text": chance.choice("ab")}), ("look", {"text": "c"}))
    if draw < 0.95:
        return route("expert" if request.context.agent_key == "clerk" else "clerk", "ask")
    return {"action": "DANCE"}
