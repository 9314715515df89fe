"""What the runs of a soak are: cheap scripted ones of several kinds, drawn by a seed, and the networks they belong to.

Each kind costs as few steps as it can, so that the time goes into the number of runs and not into their length. A run's
kind follows from the seed and its number alone: the same soak can be submitted again.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

from tests.chaos.soak.tools import NAMES

Json = dict[str, Any]

SHARES: Final = {
    "answer": 30,
    "pure": 52,
    "idempotent": 3,
    "irreversible": 5,
    "reconcilable": 2,
    "gate": 3,
    "flow": 2,
    "team": 1,
    "cancelled": 2,
}
"""Of a hundred runs: how many are of which kind."""

STILL_MS: Final = 2_000
"""How long the decision of a run takes that is cancelled meanwhile: it holds one of the decider's places so long."""

RULES: Final = (
    "  - {name: sign, tool: soak.sign, effect: require_approval}\n"
    "  - {name: others, tool: 'soak.*', effect: allow}\n"
    "  - {name: delegate, tool: 'delegate_to_*', effect: allow}\n"
)
"""Lines of the permission matrix."""


def networks() -> list[Json]:
    """Return the networks: one agent with every tool, a workflow with two members side by side, and a team of two."""
    return [
        _network("soak", [_agent("one", equipped_tools=[*NAMES], is_default=True)]),
        _network("soak-flow", [_agent(key) for key in "abc"], {"mode": "workflow", "flow": "(a | b) >> c"}),
        _network("soak-team", [_agent("a"), _agent("b")], {"mode": "team", "members": ["a", "b"]}),
    ]


def kind_of(number: int, seed: int) -> str:
    """Return the kind of run *number*."""
    chance = random.Random(f"{seed}-{number}")
    return chance.choices([*SHARES], [*SHARES.values()])[0]


def task_of(number: int, seed: int) -> Json:
    """Return the task of run *number*, with the key under which it may be submitted again."""
    kind = kind_of(number, seed)
    network, script = _SCRIPTS[kind](number)
    return {
        "network": network,
        "user_message": f"{kind} {number}",
        "script": script,
        "idempotency_key": f"soak-{seed}-{number}",
    }


def is_cancelled(number: int, seed: int) -> bool:
    """Return whether run *number* is asked to stop once it is accepted."""
    return kind_of(number, seed) == "cancelled"


def _network(name: str, agents: Sequence[Json], swarm: Json | None = None) -> Json:
    return {"name": name, "agents": [*agents], "max_steps": 10, "timeout_ms": 3_600_000} | (
        {"swarm": swarm} if swarm else {}
    )


def _agent(key: str, **settings: Any) -> Json:
    return {"key": key, "allow_respond": True, "prompt_template": "Do it.", **settings}


def _decision(agent: str, action: str, delay_ms: int = 0, **details: Any) -> Json:
    decision = {"agent": agent, "action": action, "action_reasoning": "as written", "action_details": details}
    return decision | ({"delay_ms": delay_ms} if delay_ms else {})


def _respond(agent: str = "one", delay_ms: int = 0) -> Json:
    return _decision(agent, "RESPOND", delay_ms, payload=f"{agent} is done")


def _use(agent: str, tool: str, **params: Any) -> Json:
    return _decision(agent, "USE_TOOL", calls=[{"tool_name": tool, "tool_params": params}])


def _calling(tool: str) -> Any:
    return lambda number: ("soak", [_use("one", tool, n=number), _respond()])


_SCRIPTS: Final[dict[str, Any]] = {
    "answer": lambda _: ("soak", [_respond()]),
    "pure": _calling("soak.look"),
    "idempotent": _calling("soak.note"),
    "irreversible": _calling("soak.pay"),
    "reconcilable": _calling("soak.book"),
    "gate": _calling("soak.sign"),
    "flow": lambda _: ("soak-flow", [_respond(key) for key in "abc"]),
    "team": lambda _: ("soak-team", [_use("a", "delegate_to_b", task="Help."), _respond("a"), _respond("b")]),
    "cancelled": lambda _: ("soak", [_respond(delay_ms=STILL_MS)]),
}
