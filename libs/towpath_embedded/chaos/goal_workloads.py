"""Workloads of the other kinds of run: a goal that is checked, and an objective with a plan.

Decisions are scripted and tools are recording tools, as in `workload`. These runs pass what a network run does not:
assessments, a claim that is not believed, attempts, a denial, the specialist's child run; plan, workspace and summary.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import ToolSpec
from towpath_embedded.chaos.workload import TIMEOUT_MS, TOOLSET, Workload

ERRAND = "errand"
SURVEY = "survey"

SPARE = 8
"""Further attempts that are written down: where a person answers that a call did not happen, a goal goes on to it."""

_ERRAND = {"look": "pure", "note": "idempotent", "pay": "irreversible", "seal": "irreversible", "give": "irreversible"}
_SURVEY = {"sound": "pure", "book": "idempotent"}
_DESK = ("plan_setup", "plan_mark_step", "workspace_read", "workspace_write", "workspace_edit", "workspace_grep")


def _decision(action: str, details: JsonObject) -> JsonObject:
    return {"action": action, "action_reasoning": "as written", "action_details": details, "delay_ms": 20}


def _use(agent: str, *names: str, **args: Any) -> JsonObject:
    calls = [{"tool_name": name, "tool_params": {"place": n} | args} for n, name in enumerate(names)]
    return {"agent": agent, **_decision("USE_TOOL", {"calls": calls})}


def _respond(agent: str, message: str) -> JsonObject:
    return {"agent": agent, **_decision("RESPOND", {"payload": {"message": message}})}


def _recorded(network: str, classes: dict[str, str]) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(name=f"{network}.{name}", toolset=TOOLSET, effect_class=effect_class, timeout_ms=TIMEOUT_MS)
        for name, effect_class in classes.items()
    )


def goal_workload() -> Workload:
    """Return the goal: claimed too early, denied twice, helped by a specialist, and reached by what happened."""
    equipped = [f"{ERRAND}.{name}" for name in _ERRAND]
    agents = [
        {"key": "runner", "is_default": True, "allow_respond": True, "equipped_tools": equipped},
        {"key": "sealer", "allow_respond": True, "equipped_tools": [f"{ERRAND}.seal"]},
    ]
    script = (
        _respond("runner", "done already"),
        _use("runner", f"{ERRAND}.look"),
        _use("runner", f"{ERRAND}.note", f"{ERRAND}.pay"),
        _use("runner", f"{ERRAND}.seal"),
        _use("runner", f"{ERRAND}.look", way="another"),
        _use("runner", f"{ERRAND}.seal", again=True),
        _use("sealer", f"{ERRAND}.seal"),
        _respond("sealer", "sealed"),
        _use("runner", f"{ERRAND}.give"),
        *(_use("runner", f"{ERRAND}.give", again=nth) for nth in range(SPARE)),
    )
    given = f'results.exists(one, one.tool == "{ERRAND}.give" && one.status == "succeeded")'
    goal = {
        "goal": "Bring the sealed letter.",
        "acceptance_criteria": [{"name": "given", "when": given}],
        "settings": {"specialists": ["sealer"], "confidence_every": 3},
    }
    return Workload(
        spec={"name": ERRAND, "max_steps": 20, "agents": [{**one, "prompt_template": "Go."} for one in agents]},
        script=script,
        message="Bring the sealed letter.",
        tools=_recorded(ERRAND, _ERRAND),
        rules=(
            *(
                _rule(f"errand-{name}", ERRAND, f"{ERRAND}.{name}", agent="runner")
                for name in _ERRAND
                if name != "seal"
            ),
            _rule("errand-seal", ERRAND, f"{ERRAND}.seal", agent="sealer"),
        ),
        task={"goal": goal},
    )


def objective_workload() -> Workload:
    """Return the objective: a plan, files, a failed read that is reflected on, a confirmed plan, a deliverable."""
    equipped = [*_DESK, *(f"{SURVEY}.{name}" for name in _SURVEY)]
    agents = [{"key": "surveyor", "is_default": True, "allow_respond": True, "equipped_tools": equipped}]
    steps = [{"title": "Sound the channel"}, {"title": "Write the chart"}]
    chart = {"path": "chart.md", "content": "# Chart\n\ndepth: ?\n"}
    deliverable = {"depth_m": 3, "findings": ["a sand bank"]}
    schema = {
        "type": "object",
        "properties": {"depth_m": {"type": "integer"}, "findings": {"type": "array", "items": {"type": "string"}}},
        "required": ["depth_m", "findings"],
        "additionalProperties": False,
    }
    script = (
        _do("plan_setup", objective="Survey the channel.", steps=steps),
        _do("workspace_read", path="pilot.md"),
        {"kind": "reflect", "verdict": "retry", "note": "The pilot book is under books/.", "delay_ms": 20},
        _do("workspace_read", path="books/pilot.md"),
        _use("surveyor", f"{SURVEY}.sound", f"{SURVEY}.book"),
        _do("plan_mark_step", step_id="S001", status="done", note="Three metres."),
        _do("workspace_write", **chart),
        _do("workspace_edit", path="chart.md", old="?", new="3"),
        _do("plan_mark_step", step_id="S002", status="done", note="chart.md"),
        {"kind": "reflect", "verdict": "complete", "note": "Everything is done.", "delay_ms": 20},
        {"kind": "summarize", "summary": "Three metres at low water.", "deliverable": deliverable, "delay_ms": 20},
    )
    task = {
        "objective": "Survey the channel and write the chart.",
        "deliverable_schema": schema,
        "mounts": [{"mount_path": "books", "files": [{"path": "pilot.md", "content": "Mind the sand bank.\n"}]}],
    }
    names = [*_DESK, f"{SURVEY}.*"]
    return Workload(
        spec={"name": SURVEY, "agents": [{**one, "prompt_template": "Survey."} for one in agents]},
        script=script,
        message="Survey the channel.",
        tools=_recorded(SURVEY, _SURVEY),
        rules=tuple(_rule(f"survey-{n}", SURVEY, name) for n, name in enumerate(names)),
        task={"background": task},
    )


def _do(name: str, **args: Any) -> JsonObject:
    return {"agent": "surveyor", **_decision("USE_TOOL", {"tool_name": name, "tool_params": args})}


def _rule(name: str, network: str, tool: str, **who: str) -> JsonObject:
    return {"name": name, "who": {"network": network, **who}, "tool": tool, "effect": "allow"}
