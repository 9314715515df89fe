"""The networks and the permission matrix of the mixtures, as files that anybody could have written."""

from typing import Any

MODEL = "scripted:task"
TOOLS = ["mix.look", "mix.note", "mix.book", "mix.pay", "mix.sign", "mix.finish"]
DESK = ["plan_setup", "plan_mark_step", "workspace_write", "workspace_read"]


def _agent(key: str, *more: str, **settings: Any) -> dict[str, Any]:
    return {
        "key": key,
        "allow_respond": True,
        "prompt_template": "Do what the task says.",
        "equipped_tools": [*TOOLS, *more],
        **settings,
    }


def networks() -> list[dict[str, Any]]:
    """Return one network of separate agents, and a swarm of each mode, with swarms in it where it may."""
    agents = [_agent(key) for key in "abc"]
    boss = _agent("boss", "agent_orchestrate", *DESK, is_default=True, allowed_routes=["a", "b"])
    pair = {"mode": "workflow", "flow": "a >> b"}
    crew = {"mode": "team", "members": ["b", "c"]}
    routed = [_agent("a", allowed_routes=["b"]), _agent("b", allowed_routes=["c"]), _agent("c")]
    return [
        _network("mix", [boss, *agents]),
        _network("mix-flow", agents, {"mode": "workflow", "flow": "(a | b) >> c"}),
        _network(
            "mix-nest",
            [*agents, _agent("d")],
            {"mode": "workflow", "flow": "a >> (crew | d)", "swarms": {"crew": crew}},
        ),
        _network("mix-team", agents, {"mode": "team", "members": ["a", "b", "c"]}),
        _network(
            "mix-lead",
            [_agent("lead"), *agents],
            {"mode": "team", "members": ["lead", "pair", "c"], "swarms": {"pair": pair}},
        ),
        _network("mix-hand", routed, {"mode": "handoff", "members": ["a", "b", "c"]}),
    ]


def _network(name: str, agents: list[dict[str, Any]], swarm: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {"kind": "Network", "name": name, "model": MODEL, "max_steps": 40, "timeout_ms": 600_000, "agents": agents}
    return spec | ({"swarm": swarm} if swarm else {})


def policy() -> dict[str, Any]:
    """Return who may do what: everything but signing, which a person has to allow."""
    free = [*(name for name in TOOLS if name != "mix.sign"), "delegate_to_*", "agent_orchestrate", *DESK]
    allowed = [{"name": f"may-{number}", "tool": name, "effect": "allow"} for number, name in enumerate(free)]
    return {"kind": "Policy", "rules": [*allowed, {"name": "sign", "tool": "mix.sign", "effect": "require_approval"}]}
