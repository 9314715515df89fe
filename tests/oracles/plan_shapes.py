"""Random plans and flows, each from one seed: what a caller asks for, what is wrong with it, and how its agents end."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.plan_rules import LETTERS, calls_of, named

NAMES = ("Zoe", "amy", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "lea", "max", "ned", "ole")
SWARM = "crew"
"""A nested swarm, which may be asked like an agent."""

WORDS = ("Go on. ", "{x} ", "}} ", "{{ never closed ", "Mind {{{ bindings.who }} ", "\u00e4\u00f6 ")
NO_REFERENCES = ("{{ open() }}", "{{ result }}", "{{}}", "{{ bindings..who }}", "{{ result.[0] }}", "{{ run.id }}")
ENDS = ("failed", "failed", "timed_out", "cancelled", "abandoned", "escalated", "quarantined")


@dataclass
class Fate:
    """How an agent ends; a `stubborn` one does so even where it was told to stop."""

    status: str
    final: Any
    code: str = ""
    stubborn: bool = False


@dataclass
class Case:
    """One task: a plan (`drafts` are what a model writes before it), or the stages of a workflow."""

    seed: int
    plan: Any = None
    drafts: list[Any] = field(default_factory=list)
    by_prompt: bool = False
    flow: str = ""
    stages: list[list[str]] = field(default_factory=list)
    bindings: dict[str, Any] = field(default_factory=dict)
    max_parallel: int | None = None
    run_ms: int = 600_000
    cut: str = ""
    cut_after: int = 0
    bad: int = 10

    def fate(self, name: str) -> Fate:
        """Say how the agent of that name, `<step>` or `<step>[<place>]`, ends; the same each time."""
        dice = random.Random(f"{self.seed} {name}")
        stubborn = dice.random() < 0.3
        if dice.randrange(100) < self.bad:
            status = dice.choice(ENDS)
            return Fate(status, {"message": "no"}, dice.choice(("", "why")), stubborn)
        return Fate("completed", _payload(dice), "", stubborn)


def _payload(dice: random.Random) -> dict[str, Any]:
    long = "much " * dice.choice((0, 0, 0, 0, 0, 0, 0, 0, 700, 3_900))
    return dice.choice(
        (
            {"message": f"said {dice.randrange(99)}{long}"},
            {"message": f"{{{{ result.a }}}} {long}"},
            {"n": dice.randrange(9), "list": [1, {"k": long}], "message": None},
            {"list": [[], "two"], "n": {"k": None}, "0": long},
        )
    )


def a_case(seed: int, *, broken: int = 30, simple: bool = False) -> Case:
    """Return the case of a seed; of a hundred plans about *broken* are changed so that most of them are wrong.

    A *simple* one is neither cut short nor timed: what time does to a run on a platform nobody can say beforehand.
    """
    dice = random.Random(seed)
    case = Case(seed, bad=dice.choice((0, 3, 10, 40)))
    if not simple and dice.random() < 0.15:
        case.cut, case.cut_after = dice.choice((("cancel", 0), ("deadline", 0)))[0], dice.randrange(6)
    if not simple and dice.random() < 0.2:
        case.run_ms = dice.choice((20_000, 60_000))
    if dice.random() < 0.2:
        case.flow, case.stages = a_flow(dice)
        return case
    if dice.random() < 0.5:
        case.bindings = {name: _value(dice) for name in dice.sample(("who", "what", "a.b", "n"), dice.randrange(3))}
    case.max_parallel = dice.choice((None, None, 1, 2, 3, 4))
    case.plan = a_plan(dice, case.bindings, timed=not simple)
    if dice.randrange(100) < broken:
        for _ in range(dice.randrange(1, 4)):
            case.plan = _change(dice, case.plan)
    if dice.random() < 0.15:
        case.by_prompt = True
        case.drafts = [_change(dice, a_plan(dice, case.bindings, timed=not simple))] if dice.random() < 0.5 else []
    return case


def a_flow(dice: random.Random) -> tuple[str, list[list[str]]]:
    """Return the text of a flow, and its stages."""
    names = dice.sample((*NAMES, SWARM), dice.randrange(1, 13))
    stages = []
    while names:
        width = dice.choice((1, 1, 2, 3, 6))
        stages.append(names[:width])
        names = names[width:]

    def blank() -> str:
        return dice.choice(("", " ", "  "))

    texts = [
        f"({blank()}{f'{blank()}|{blank()}'.join(stage)}{blank()})" if len(stage) > 1 else stage[0] for stage in stages
    ]
    return f"{blank()}>>{blank()}".join(texts), stages


def a_plan(dice: random.Random, bindings: dict[str, Any], *, timed: bool = True) -> dict[str, Any]:
    """Return a plan that should be right."""
    plan: dict[str, Any] = {"steps": []}
    if dice.random() < 0.4:
        plan["bindings"] = {"who": dice.choice(("me", 7, {"message": "you"})), "only.here": [1, 2]}
    if dice.random() < 0.2:
        plan |= {"name": "random", "colour": "red"}
    known = [f"bindings.{name}" for name in {**plan.get("bindings", {}), **bindings}]
    used: set[str] = set()
    for place in range(min(dice.randrange(1, 14), dice.randrange(1, 14), 12)):
        step = _step(dice, place, known, used, timed=timed)
        plan["steps"].append(step)
        known += _names_of(named(step, place))
    return plan


def _names_of(step: dict[str, Any]) -> list[str]:
    """Return references to what a step gives: whole, and to parts that may or may not be there."""
    found = []
    for _path, call in calls_of(step):
        name = f"result.{call.get('result_key') or step['id']}"
        found += [name, name, name, f"{name}.n", f"{name}.list[0]"] if call.get("result_key") else [name]
    return found


def _step(dice: random.Random, place: int, known: list[str], used: set[str], *, timed: bool) -> dict[str, Any]:
    step: dict[str, Any] = {}
    if dice.random() < 0.6:
        step["id"] = f"{dice.choice(('s', 'Step.', 'x:', 'a-'))}{place}"
    if timed and dice.random() < 0.15:
        step["timeout_ms"] = dice.choice((5_000, 30_000))
    if dice.random() < 0.5:
        return {**step, "type": "agent", "agent": _call(dice, known, used, timed=timed)}
    block: dict[str, Any] = {"steps": [_call(dice, known, used, timed=timed) for _ in range(dice.randrange(1, 11))]}
    if dice.random() < 0.4:
        block["max_concurrency"] = dice.choice((1, 2, 3, 4, 5, 40))
    if dice.random() < 0.7:
        block["merge_strategy"] = dice.choice(("collect", "collect_all", "fail_fast", "first_success"))
    return {**step, "type": "parallel", "parallel": block}


def _call(dice: random.Random, known: list[str], used: set[str], *, timed: bool) -> dict[str, Any]:
    call: dict[str, Any] = {"agent_key": dice.choice((*NAMES, SWARM) if dice.random() < 0.2 else NAMES)}
    if dice.random() < 0.7:
        call["prompt"] = _text(dice, known)
    if dice.random() < 0.3:
        call["with"] = {name: _value(dice, known) for name in dice.sample(("b", "a", "c"), dice.randrange(3))}
    free = [key for key in ("a", "a.b", "k-1", "L_", "k2", "k3", "k4", "k5", "k6") if key not in used]
    if free and dice.random() < 0.4:
        call["result_key"] = dice.choice(free)
        used.add(call["result_key"])
    if timed and dice.random() < 0.1:
        call["timeout_ms"] = dice.choice((2_000, 50_000))
    return call


def _text(dice: random.Random, known: list[str]) -> str:
    text = dice.choice(WORDS[:3])
    if known and dice.random() < 0.5:
        text += f"{{{{{dice.choice(('', ' ', '  '))}{dice.choice(known)} }}}}"
    return text + dice.choice(("", WORDS[3], WORDS[5]))


def _value(dice: random.Random, known: list[str] | None = None) -> Any:
    if known and dice.random() < 0.5:
        return f" {{{{ {dice.choice(known)} }}}}" if dice.random() < 0.7 else [_text(dice, known)]
    return dice.choice((1, "text", None, [True], {"k": "v", "list": ["x"]}, 2.5))


# What goes wrong when people and models write plans.

Step = dict[str, Any]


def _change(dice: random.Random, plan: Any) -> Any:
    if not isinstance(plan, dict) or not isinstance(plan.get("steps"), list) or not plan["steps"]:
        return plan
    plan = deepcopy(plan)
    if dice.random() < 0.15:
        return _change_plan(dice, plan)
    place = dice.randrange(len(plan["steps"]))
    step = plan["steps"][place]
    if not isinstance(step, dict):
        return plan
    calls = [call for _path, call in calls_of(step)]
    if calls and dice.random() < 0.6:
        _change_call(dice, dice.choice(calls), plan["steps"])
    else:
        plan["steps"][place] = _change_step(dice, step, plan["steps"])
    return plan


def _change_plan(dice: random.Random, plan: dict[str, Any]) -> Any:
    changes: tuple[Callable[[], Any], ...] = (
        lambda: {**plan, "steps": []},
        lambda: {**plan, "steps": [*plan["steps"], *[{"type": "agent", "agent": {"agent_key": "bob"}}] * 12][:13]},
        lambda: {**plan, "steps": {"first": plan["steps"][0]}},
        lambda: {key: value for key, value in plan.items() if key != "steps"},
        lambda: {**plan, "bindings": dice.choice(([], "x", 7))},
        lambda: {**plan, "name": 7},
        lambda: {**plan, "steps": [*plan["steps"], dice.choice((None, "step", 7, []))]},
        lambda: {**plan, "steps": plan["steps"][::-1]},
        lambda: {**plan, "bindings": {"who": "x" * 270_000}},
    )
    return dice.choice(changes)()


def _change_step(dice: random.Random, step: Step, steps: list[Any]) -> Any:
    ids = [one.get("id", "step_01") for one in steps if isinstance(one, dict)]
    agent = {"agent_key": "bob"}
    changed: Step = dice.choice(
        (
            {"id": "a b"},
            {"id": "l" * 65},
            {"id": "q" * 64},
            {"id": dice.choice(ids)},
            {"id": "step_02"},
            {"id": 7},
            {"type": "tool"},
            {"type": "agent"},
            {"type": "parallel"},
            {"agent": agent},
            {"parallel": {"steps": [agent]}},
            {"agent": None, "parallel": None},
            {"timeout_ms": dice.choice((0, -5, 86_400_001, "7", True))},
            {"name": "n" * 161},
            {"retries": 3},
        )
    )
    if "parallel" in step and isinstance(step["parallel"], dict) and dice.random() < 0.5:
        block = dice.choice(
            (
                {"steps": []},
                {"steps": [agent] * dice.choice((16, 17))},
                {"max_concurrency": dice.choice((0, -1, "2"))},
                {"merge_strategy": "any"},
                {"wait": True},
            )
        )
        changed = {"parallel": {**step["parallel"], **block}}
    return {**step, **changed}


def _change_call(dice: random.Random, call: Step, steps: list[Any]) -> None:
    keys = [one["result_key"] for step in steps for _path, one in calls_of(step) if one.get("result_key")] or ["a"]
    change: Step = dice.choice(
        (
            {"agent_key": "ghost"},
            {"agent_key": ""},
            {"agent_key": 7},
            {"prompt": dice.choice(NO_REFERENCES)},
            {"prompt": "{{ result.nothing }}"},
            {"prompt": f"{{{{ result.{dice.choice(keys)}.missing }}}}"},
            {"prompt": f"{{{{ result.{dice.choice(keys)} }}}}"},
            {"prompt": WORDS[4]},
            {"prompt": "p" * dice.choice((16_384, 16_385))},
            {"with": {"x": [{"y": "{{ bindings.nobody }}"}]}},
            {"with": dice.choice(([], "text"))},
            {"result_key": "k y"},
            {"result_key": "k:y"},
            {"result_key": "r" * dice.choice((64, 65))},
            {"result_key": dice.choice(keys)},
            {"result_key": "step_01"},
            {"timeout_ms": dice.choice((0, -1, "5", 1.5))},
            {"tools": ["all"]},
        )
    )
    if dice.random() < 0.05:
        call.pop("agent_key", None)
    call.update(change)


assert all(set(name) <= LETTERS for name in NAMES)
