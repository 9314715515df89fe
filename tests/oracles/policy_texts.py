"""Random policies as text, and random calls to decide. Knows the format of the file and uses no code of the product."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

NAMES = ("support", "sales", "billing", "refunds", "writer", "ann", "svc-night")
GLOBS = (
    *(
        "*",
        "*",
        "*",
        "s*",
        "*s",
        "?ales",
        "b*g",
        "svc-*",
        "[ab]*",
        "[!ab]*",
        "a[m-o]n",
        "re*nd?",
        "[",
        "x[",
        "[]s",
        "*[!]",
    ),
    *NAMES,
)
TOOLS = ("orders.find", "orders.refund", "mail.send", "files.delete", "web.fetch", "web.post")
DISCOVERED = ("web.fetch", "web.post")
OPERATIONS = {
    "orders.find": "read",
    "orders.refund": "write",
    "mail.send": "send",
    "files.delete": "call",
    "web.fetch": "call",
    "web.post": "write",
}
REQUIRED = {"orders.refund": {"amount": "number"}, "mail.send": {"to": "string"}}
"""Arguments that a tool insists on; every other is free, so that conditions meet missing and mistyped ones."""

TOOL_GLOBS = (
    *(
        "*",
        "*",
        "orders.*",
        "*.refund",
        "orders.re[a-f]und",
        "mail.send",
        "web.*",
        "web.*",
        "web.fetch",
        "w*",
        "files.?elete",
    ),
    *TOOLS,
)
OPERATION_GLOBS = ("*", "*", "*", "read", "write", "[rw]*", "call", "send")
NUMBERS = ("0", "1", "5", "100", "2.5", "100.0")
TEXTS = ("'a'", "'ab'", "''", '"ann"', "'support'", "'C-1'")
PATHS = (
    *("args.amount", "args.amount", "args.to", "args.tags", "args.deep", "args.deep.a", "args.deep.b.c", "args.none"),
    *("run.labels.team", "run.step", "run.network", "run.project", "agent.key", "agent.type", "caller", "args['to']"),
)
VALUES: tuple[Any, ...] = (
    *(0, 1, 5, 100, -3, 2.5, 100.0, 0.0, "a", "ab", "", "ann", "100", "C-1 x", None, True, False),
    *([], [1, "a"], ["ab"], [5, None], {}, {"a": 1}, {"a": "ab", "b": {"c": 5}}, {"b": {"c": None}}),
)


@dataclass(slots=True)
class Question:
    """One call, and what was used of the limits before it."""

    project: str
    network: str
    agent: str
    agent_type: str
    caller: str
    tool: str
    operation: str
    step: int
    args: dict[str, Any]
    labels: dict[str, str]
    used: dict[str, int] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)
    spent_usd: float | None = None

    def context(self) -> dict[str, Any]:
        """What its conditions see; `run.id` is left out, it is of no use in a rule."""
        run = {"project": self.project, "network": self.network, "step": self.step, "labels": self.labels}
        return {
            "args": self.args,
            "run": run,
            "agent": {"key": self.agent, "type": self.agent_type},
            "caller": self.caller,
        }


def policy_text(dice: random.Random) -> str:
    """Return a policy of some rules, spelt in one of the ways that YAML allows."""
    rules = [_rule(dice, f"r{number}") for number in range(dice.choice((0, 1, 2, 3, 5, 8, 12)))]
    lines = ["# random", "kind: Policy", f"rules:{'' if rules else ' []'}"]
    for rule in rules:
        lines += _spelt(dice, rule)
    return "\n".join(lines) + "\n"


def question(dice: random.Random) -> Question:
    """Return a question; its names are likely to be spoken of."""
    tool = dice.choice(TOOLS) if dice.random() < 0.97 else "orders.fnd"
    operation = dice.choice(
        ("call", OPERATIONS.get(tool, "call"), OPERATIONS.get(tool, "call"), dice.choice(("read", "x")))
    )
    args = {name: dice.choice(VALUES) for name in ("amount", "to", "tags", "deep") if dice.random() < 0.7}
    for name, kind in REQUIRED.get(tool, {}).items():
        if dice.random() < 0.9:
            args[name] = dice.choice((1, 5, 100, 2.5)) if kind == "number" else dice.choice(("a", "ann", "C-1"))
    rules = [f"r{number}" for number in range(12)]
    return Question(
        project=dice.choice(("shop", "sales")),
        network=dice.choice(NAMES),
        agent=dice.choice(NAMES),
        agent_type=dice.choice(("", "writer", "reader")),
        caller=dice.choice((*NAMES, "Ann")),
        tool=tool,
        operation=operation,
        step=dice.choice((0, 1, 5)),
        args=args,
        labels=dice.choice(({}, {"team": "a"}, {"team": "ab", "x": "y"})),
        used={rule: dice.choice((0, 0, 0, 1, 3)) for rule in rules},
        rates={rule: dice.choice((0, 0, 0, 1, 3)) for rule in rules},
        spent_usd=dice.choice((None, 0.0, 0.0, 0.0, 0.25, 0.5, 2.0)),
    )


def _rule(dice: random.Random, name: str) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "name": name,
        "effect": dice.choices(("allow", "require_approval", "deny"), (6, 2, 1))[0],
    }
    keys = ("project", "network", "agent", "agent_type", "caller")
    who = {key: dice.choice(GLOBS) for key in keys if dice.random() < 0.08}
    if who:
        rule["who"] = who
    if dice.random() < 0.9:
        rule["tool"] = dice.choice(TOOL_GLOBS)
    if dice.random() < 0.2:
        rule["operation"] = dice.choice(OPERATION_GLOBS)
    if dice.random() < 0.5:
        rule["when"] = condition_text(dice, 3)
    if rule["effect"] != "deny":
        _limits(dice, rule)
        if rule.get("tool", "").startswith("web.") and dice.random() < 0.5:
            rule["discovered"] = dice.choice(("true", "true", "false"))
    return rule


def _limits(dice: random.Random, rule: dict[str, Any]) -> None:
    if dice.random() < 0.12:
        rule["max_calls_per_run"] = dice.choice((1, 2, 3, 4))
    if dice.random() < 0.12:
        rule["rate"] = {"calls": dice.choice((1, 2, 3, 4)), "per_s": dice.choice((1, 60))}
    if dice.random() < 0.12:
        rule["max_cost_per_run_usd"] = dice.choice(("0.25", "0.5", "1"))


def condition_text(dice: random.Random, depth: int) -> str:
    """Return a condition, mostly one that can be true."""
    if depth == 0 or dice.random() < 0.25:
        return _test(dice)
    form = dice.choice(("and", "or", "not", "choice", "test", "test"))
    one, two = condition_text(dice, depth - 1), condition_text(dice, depth - 1)
    if form == "not":
        return f"!({one})"
    if form == "choice":
        return f"({one}) ? ({two}) : {_test(dice)}"
    return f"({one}) {'&&' if form == 'and' else '||'} ({two})" if form != "test" else _test(dice)


def _test(dice: random.Random) -> str:
    path = dice.choice(PATHS)
    match dice.randrange(12):
        case 0 | 1 | 2:
            return f"{path} {dice.choice(('<', '<=', '>', '>='))} {dice.choice((*NUMBERS, *TEXTS))}"
        case 3 | 4:
            return f"{path} {dice.choice(('==', '!='))} {dice.choice((*NUMBERS, *TEXTS, 'null', 'true'))}"
        case 5:
            return f"{path} in [{dice.choice(NUMBERS)}, {dice.choice(TEXTS)}, {dice.choice((*TEXTS, 'null'))}]"
        case 6:
            return f"{dice.choice((*TEXTS, 'args.to', '1'))} in {path}"
        case 7:
            return f"has({dice.choice(('args.amount', 'args.to', 'args.deep.a', 'args.deep.b.c', 'run.labels.team'))})"
        case 8:
            return f"{path}.{dice.choice(('startsWith', 'endsWith', 'contains'))}({dice.choice((*TEXTS, 'args.to'))})"
        case 9:
            return f"size({path}) {dice.choice(('==', '<', '>='))} {dice.choice(('0', '1', '2'))}"
        case 10:
            return f"{path} {dice.choice(('+', '-'))} {dice.choice(NUMBERS)} > {dice.choice(NUMBERS)}"
        case _:
            return dice.choice((path, "true", "false", f"{path} == {dice.choice(PATHS)}", f"!{path}", f"{path}.x == 1"))


def _spelt(dice: random.Random, rule: dict[str, Any]) -> list[str]:
    keys = list(rule)
    dice.shuffle(keys)
    parts = [f"{key}: {_value(dice, rule[key])}" for key in keys]
    if dice.random() < 0.4:
        return [f"  - {{{', '.join(parts)}}}"]
    return [f"  {'-' if place == 0 else ' '} {part}{dice.choice(('', '  # x'))}" for place, part in enumerate(parts)]


def _value(dice: random.Random, value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value(dice, inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, int):
        return str(value)
    if "'" not in value and dice.random() < 0.3:
        return f"'{value}'"
    return value if value.replace("_", "").isalnum() and not value.isdigit() else json.dumps(value)
