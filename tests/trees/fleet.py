"""A network whose runs are trees: workflows of workflows of workflows, with a run for every agent at the bottom.

As in `workload`: scripted decisions, recording tools. Every agent at the bottom makes one call that must not
happen twice, and answers with its name; what the whole tree answers follows from that alone.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_embedded.chaos.workload import TIMEOUT_MS, TOOLSET, Workload

FLEET = "fleet"
_CALLS = {
    "load": EffectClass.IRREVERSIBLE,
    "weigh": EffectClass.IDEMPOTENT,
    "seal": EffectClass.IRREVERSIBLE,
    "moor": EffectClass.IDEMPOTENT,
}
"""The tools, and what is true of them; each agent calls the one of its name."""


def tree_workload(width: int = len(_CALLS)) -> Workload:
    """Return the network: *width* swarms of *width* swarms of *width* agents, all three deep; at most four."""
    crew = tuple(_CALLS)[:width]
    boats = [f"boat_{number}" for number in range(1, width + 1)]
    convoys = [f"convoy_{number}" for number in range(1, width + 1)]
    nested = {
        **{convoy: {"mode": "workflow", "flow": _together(boats)} for convoy in convoys},
        **{boat: {"mode": "workflow", "flow": _together(crew)} for boat in boats},
    }
    agents = [
        {"key": key, "allow_respond": True, "equipped_tools": [f"{FLEET}.{key}"], "prompt_template": "Cast off."}
        for key in crew
    ]
    return Workload(
        spec={
            "name": FLEET,
            "agents": agents,
            "swarm": {"mode": "workflow", "flow": _together(convoys), "swarms": nested},
        },
        script=tuple(line for key in crew for line in _lines(key)),
        message="Cast off.",
        tools=tuple(
            ToolSpec(name=f"{FLEET}.{key}", toolset=TOOLSET, effect_class=_CALLS[key], timeout_ms=TIMEOUT_MS)
            for key in crew
        ),
        rules=({"name": FLEET, "who": {"network": FLEET}, "tool": f"{FLEET}.*", "effect": "allow"},),
    )


def expected_answer(width: int = len(_CALLS)) -> str:
    """Return what a tree of that width answers: all answers at its bottom, in the order of their names."""
    return "\n\n".join(sorted(tuple(_CALLS)[:width]) * width * width)


def tree_size(width: int = len(_CALLS)) -> int:
    """Return how many runs a tree of that width has, its top included."""
    return 1 + width + width**2 + width**3


def _together(names: list[str] | tuple[str, ...]) -> str:
    return f"({' | '.join(names)})" if len(names) > 1 else names[0]


def _lines(key: str) -> tuple[JsonObject, JsonObject]:
    call = {"tool_name": f"{FLEET}.{key}", "tool_params": {"place": key}}
    answer = {"payload": {"message": key}}
    return (
        {"agent": key, **_decision("USE_TOOL", {"calls": [call]})},
        {"agent": key, **_decision("RESPOND", answer)},
    )


def _decision(action: str, details: JsonObject) -> JsonObject:
    return {"action": action, "action_reasoning": "as written", "action_details": details, "delay_ms": 20}
