"""What a labelled trace is: the turns that a model and its tools take, and where its loop is, if it has one.

A label says what is true of the trace, not what a detector does. It was fixed before the detectors were tuned and
follows from three sentences: the third equal call or error is a loop; a cycle is one after three rounds, long ones
(four to six steps) with the first step of the third; whatever is slower than that was found too late. They are for
a threshold of 3; the module of a family with another threshold says where its labels come from.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import CompiledAgent, NetworkSnapshot
from towpath_contracts.tools.calls import EffectClass, ToolSpec


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one call."""

    result: Any = None
    code: str = ""
    message: str = ""
    external: bool = False
    denied: str = ""


@dataclass(frozen=True, kw_only=True)
class DeniedByRule(Outcome):
    """A denial that names its tool and rule."""

    tool: str
    rule: str


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One decision, as the text that a model wrote, and the outcomes of its calls; no text is an unreadable answer."""

    text: str
    outcomes: tuple[Outcome, ...] = ()

    @property
    def decision(self) -> JsonObject:
        decoded: JsonObject = json.loads(self.text)
        return decoded


@dataclass(frozen=True, kw_only=True)
class Label:
    """Steps count from 1. A loop is found in time from `earliest` to `latest`; anything sooner was no loop yet."""

    loops: bool
    earliest: int = 0
    latest: int = 0


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One run to be driven."""

    family: str
    seed: int
    turns: tuple[Turn, ...]
    label: Label
    restarts: tuple[int, ...]
    """Steps before which the state is written and read back, as another process would."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A preamble is put before `turns`; within these the loop is found from step `earliest` to step `latest`."""

    turns: tuple[Turn, ...]
    earliest: int
    latest: int


Family = Callable[[Random], Loop | tuple[Turn, ...]]

LOOPING: dict[str, Family] = {}
BENIGN: dict[str, Family] = {}
TOLD: dict[str, Family] = {}
"""Families whose runs begin like a loop: a note to the model is right, and the end of the run is wrong."""


def looping(family: Callable[[Random], Loop]) -> Callable[[Random], Loop]:
    """Register a family whose runs go round in circles."""
    LOOPING[family.__name__] = family
    return family


def benign(family: Callable[[Random], tuple[Turn, ...]]) -> Callable[[Random], tuple[Turn, ...]]:
    """Register a family whose runs only look as if they did."""
    BENIGN[family.__name__] = family
    return family


def told(family: Callable[[Random], tuple[Turn, ...]]) -> Callable[[Random], tuple[Turn, ...]]:
    """Register a family of TOLD."""
    TOLD[family.__name__] = family
    return family


WORDS = (
    *("harbour", "lock", "gate", "barge", "rope", "mast", "tide", "canal", "weir", "towline", "pilot", "cargo"),
    *("ledger", "invoice", "refund", "order", "parcel", "customer", "archive", "signal", "bridge", "tunnel"),
    *("basin", "quay", "winch", "rudder", "anchor", "chart", "buoy", "sluice"),
)


def word(rng: Random) -> str:
    return rng.choice(WORDS)


def words(rng: Random, count: int) -> str:
    return " ".join(rng.sample(WORDS, count))


def fresh(rng: Random) -> str:
    """A name that no other turn of the trace has."""
    return f"{word(rng)}-{rng.randrange(10**9):09d}"


def page(rng: Random, size: int = 8) -> JsonObject:
    """A result with something in it."""
    items = [{"name": fresh(rng), "note": words(rng, 3), "count": rng.randrange(1000)} for _ in range(size)]
    return {"items": items, "total": rng.randrange(100, 1000)}


def scrambled(value: Any, rng: Random) -> str:
    """Write JSON with its keys in another order and other white space: the same value."""
    if isinstance(value, dict):
        pairs = [f"{json.dumps(k)}{rng.choice((':', ' : '))}{scrambled(v, rng)}" for k, v in value.items()]
        rng.shuffle(pairs)
        return "{" + rng.choice((",", ", ", ",\n  ")).join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(scrambled(v, rng) for v in value) + "]"
    return json.dumps(value)


def decided(action: str, details: JsonObject, why: str = "because") -> str:
    return json.dumps({"action": action, "action_reasoning": why, "action_details": details})


def call(tool: str, args: JsonObject, outcome: Outcome | Any = None, *, why: str = "because") -> Turn:
    """One call and what became of it; anything but an Outcome is the result of a success."""
    told = outcome if isinstance(outcome, Outcome) else Outcome(result=outcome)
    return Turn(text=decided("USE_TOOL", {"tool_name": tool, "tool_params": args}, why), outcomes=(told,))


def calls(*several: tuple[str, JsonObject, Any]) -> Turn:
    """Calls of one decision."""
    details = {"calls": [{"tool_name": tool, "tool_params": args} for tool, args, _ in several]}
    return Turn(text=decided("USE_TOOL", details), outcomes=tuple(Outcome(result=result) for _, _, result in several))


def route(target: str, context: Any = None) -> Turn:
    return Turn(text=decided("ROUTE_TO_AGENT", {"target_agent_name": target, "context": context}))


def respond(payload: str = "done") -> Turn:
    return Turn(text=decided("RESPOND", {"payload": payload}))


def failed(message: str, *, code: str = "tool_exception", external: bool = False) -> Outcome:
    return Outcome(code=code, message=message, external=external)


def denied(violation: str = "permission_denied") -> Outcome:
    """A denial as earlier releases told it: neither tool nor rule is named."""
    return Outcome(denied=violation)


def denied_by_rule(tool: str, rule: str) -> Outcome:
    return DeniedByRule(denied="permission_denied", tool=tool, rule=rule)


def work(rng: Random) -> Turn:
    """A step that gets on: arguments nobody used before, a result nobody saw before."""
    kind = rng.randrange(4)
    if kind == 0:
        return call("search", {"query": words(rng, 3) + " " + fresh(rng)}, page(rng, 3))
    if kind == 1:
        return call("read", {"path": f"notes/{fresh(rng)}.md"}, {"text": words(rng, 12) + " " + fresh(rng)})
    if kind == 2:
        return call("write", {"path": f"out/{fresh(rng)}.md", "text": words(rng, 9)}, {"written": True})
    return call("send", {"to": f"{fresh(rng)}@example.org", "text": words(rng, 5)}, {"accepted": True})


def _preamble(rng: Random) -> Iterator[Turn]:
    for _ in range(rng.randrange(4)):
        yield work(rng)


AFTER_LATEST = 2
"""Turns of the loop that a trace goes on with, so that a detector that is late shows as late."""


def looping_trace(name: str, seed: int) -> Trace:
    """Make the trace of a looping family."""
    rng = Random(f"{name}:{seed}")
    made = LOOPING[name](rng)
    assert isinstance(made, Loop) and len(made.turns) >= made.latest >= made.earliest >= 2
    before = tuple(_preamble(rng))
    label = Label(loops=True, earliest=len(before) + made.earliest, latest=len(before) + made.latest)
    restarts = tuple(sorted(rng.sample(range(len(before) + 2, label.latest + 1), 2)))
    return Trace(family=name, seed=seed, turns=(*before, *made.turns), label=label, restarts=restarts)


def benign_trace(name: str, seed: int) -> Trace:
    """Make the trace of a benign family, or of one of TOLD; it ends with an answer."""
    rng = Random(f"{name}:{seed}")
    made = (BENIGN | TOLD)[name](rng)
    assert isinstance(made, tuple)
    before = tuple(_preamble(rng))
    turns = (*before, *made, respond())
    restarts = tuple(sorted(rng.sample(range(1, len(turns) + 1), min(2, len(turns)))))
    return Trace(family=name, seed=seed, turns=turns, label=Label(loops=False), restarts=restarts)


def _tool(name: str, effect_class: EffectClass, **more: Any) -> ToolSpec:
    return ToolSpec(name=name, toolset="loops", effect_class=effect_class, **more)


TOOLS = (
    *(_tool(n, EffectClass.PURE) for n in ("search", "read", "list", "check", "look", "test", "fetch", "think")),
    _tool("write", EffectClass.IDEMPOTENT),
    _tool("send", EffectClass.IRREVERSIBLE),
    _tool("move", EffectClass.IRREVERSIBLE),
    _tool("job", EffectClass.PURE, polling=True),
)
AGENTS = ("lead", "writer", "critic")


def world() -> NetworkSnapshot:
    """The network of every trace: three agents that may do everything, and no limit that ends a trace early."""
    names = tuple(tool.name for tool in TOOLS)
    agents = {
        key: CompiledAgent(
            key=key,
            model="scripted:task",
            equipped_tools=names,
            allowed_routes=tuple(other for other in AGENTS if other != key),
            allow_respond=True,
        )
        for key in AGENTS
    }
    return NetworkSnapshot(
        network="loops",
        default_agent_key="lead",
        agents=agents,
        tools={tool.name: tool for tool in TOOLS},
        max_steps=100,
        max_tool_errors=100,
        timeout_ms=3_600_000,
        step_timeout_ms=60_000,
    )
