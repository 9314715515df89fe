"""The matrix against two other policy engines, where their semantics agree with ours.

`python -m tests.oracles.engines --conditions 20000 --matrices 2000`

`cel-expr-python` (Google's C++ engine) evaluates the same conditions; both follow the definition of CEL. Known
differences, which are left out: `size` of a text that is not ASCII (ours counts bytes of UTF-8, the definition code
points), a double searched `in` a map (ours is unclear, the definition says no), `int` and `string` of a boolean (ours
is unclear, Google's engine converts it).

`cedarpy` (Cedar) decides whole matrices: `allow` becomes `permit`, `deny` becomes `forbid`, and `require_approval`
takes two passes. A known difference, which guards leave out, is a condition with an error: Cedar skips such a policy,
also a `forbid`; here a restricting rule then applies. `the_known_difference` shows it.
"""

import argparse
import json
import random
import sys
from collections import Counter
from typing import Any

import cedarpy
from cel_expr_python import cel as google
from tests.oracles.policy_texts import condition_text, question

from towpath_contracts.files.policy_document import RuleEffect
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.condition_work import VARIABLES
from towpath_tas.core.policy.conditions import ConditionResult
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix, Rule

AGREED = (
    *("args.tags.exists(x, x == 'a')", "args.tags.all(x, x != null)", "args.to.matches('^a')", "args.tags[0] == 1"),
    *("type(args.amount) == int", "args.deep == {'a': 1}", "args.tags.map(x, x) == [1, 'a']"),
    *(
        "args.amount / 2 == 1",
        "args.amount * 2 > 9",
        "args.amount % 2 == 1",
        "string(args.step) == '5'",
        "args.deep[1] == 1",
    ),
    *("args.tags.exists_one(x, x == 1)", "args.to < 'b'", "size(args.tags.filter(x, x == 1)) == 1", "args.amount > 5u"),
)
"""Forms beyond those that are made at random."""

ENVIRONMENT: Any = google.NewEnv(variables=dict.fromkeys(VARIABLES, google.Type.DYN))
TOOLS = ("orders.find", "orders.refund", "mail.send")
PATTERNS = ("*", "*", "orders.*", "*.send", "mail.send", "orders.refund", "o*s.f*")
PEOPLE = ("ann", "bert", "svc-night")
PEOPLE_PATTERNS = ("*", "*", "*", "ann", "svc-*", "*t")


def google_answer(text: str, context: dict[str, Any]) -> ConditionResult:
    """Evaluate a condition with Google's engine; errors count as errors."""
    found = ENVIRONMENT.compile(text, disable_check=True).eval(data=context)
    if str(found.type()) != "BOOL":
        return ConditionResult.UNCLEAR
    return ConditionResult.YES if found.value() else ConditionResult.NO


def conditions(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Evaluate random conditions with both engines; return the answers, and every difference."""
    dice = random.Random(seed)
    said: Counter[str] = Counter()
    differing = []
    for _ in range(count):
        text = dice.choice(AGREED) if dice.random() < 0.2 else condition_text(dice, 2)
        context = {**question(dice).context(), "origin": {}}
        ours, theirs = compile_condition(text)(context), google_answer(text, context)
        said[ours.value] += 1
        if ours is not theirs and not _known(text, context):
            differing.append(f"{text} with {context}: {ours.value}, Google's engine says {theirs.value}")
    return said, differing


def _known(text: str, context: dict[str, Any]) -> bool:
    """Whether the text may look for a double in a map, the one known difference that the random texts can hit."""
    return "args.to in " in text and isinstance(context["args"].get("to"), float)


def matrices(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Decide five requests by each of *count* random matrices, here and by Cedar."""
    dice = random.Random(seed)
    said: Counter[str] = Counter()
    differing = []
    for _ in range(count):
        rules = [_rule(dice, f"r{number}") for number in range(dice.randrange(1, 10))]
        texts = {name: conditions for name, (_, conditions) in rules}
        matrix = Matrix([rule for _, (rule, _) in rules], compile_condition)
        asked = [_request(dice) for _ in range(5)]
        theirs = _by_cedar([rule for _, (rule, _) in rules], texts, asked)
        for request, their in zip(asked, theirs, strict=True):
            who = CallPrincipal(request["network"], request["agent"], "", request["caller"], "shop")
            ours = matrix.decide(who, request["tool"], "call", {"args": request["args"]}).effect
            said[ours] += 1
            if ours != their:
                differing.append(f"{[rule for _, rule in rules]} asked {request}: {ours}, Cedar says {their}")
    return said, differing


def the_known_difference() -> tuple[RuleEffect, str]:
    """A forbidding rule whose argument is missing: return our verdict, and that of Cedar."""
    rules = [
        Rule(name="all", effect="allow"),
        Rule(name="large", effect="deny", when="args.amount > 100"),
    ]
    ours = Matrix(rules, compile_condition).decide(CallPrincipal("", "", "", ""), "t", "call", {"args": {}}).effect
    policies = "permit(principal, action, resource);"
    policies += "forbid(principal, action, resource) when { context.args.amount > 100 };"
    found = cedarpy.is_authorized(_cedar_request({"args": {}}), policies, [])
    return ours, str(found.decision.value)


def _rule(dice: random.Random, name: str) -> tuple[str, tuple[Rule, str]]:
    cel_text, cedar_text = _condition(dice, 2)
    effect: RuleEffect = dice.choices(("allow", "require_approval", "deny"), (5, 2, 1))[0]  # type: ignore[assignment]
    rule = Rule(
        name=name,
        effect=effect,
        network=dice.choice(PEOPLE_PATTERNS),
        agent=dice.choice(PEOPLE_PATTERNS),
        caller=dice.choice(PEOPLE_PATTERNS),
        tool=dice.choice(PATTERNS),
        when=cel_text,
    )
    return name, (rule, cedar_text)


def _condition(dice: random.Random, depth: int) -> tuple[str, str]:
    """Return one condition in both languages; guards see to it that it never errs."""
    if depth == 0 or dice.random() < 0.4:
        return _test(dice)
    one, two = _condition(dice, depth - 1), _condition(dice, depth - 1)
    match dice.randrange(3):
        case 0:
            return f"({one[0]}) && ({two[0]})", f"({one[1]}) && ({two[1]})"
        case 1:
            return f"({one[0]}) || ({two[0]})", f"({one[1]}) || ({two[1]})"
        case _:
            return f"!({one[0]})", f"!({one[1]})"


def _test(dice: random.Random) -> tuple[str, str]:
    number, word = dice.choice(("0", "5", "100")), dice.choice(("a", "ann", "bo"))
    match dice.randrange(6):
        case 0:
            sign = dice.choice(("<", "<=", ">", ">=", "==", "!="))
            test = f"args.amount {sign} {number}"
            return f"has(args.amount) && {test}", f"context.args has amount && context.{test}"
        case 1:
            return f'has(args.to) && args.to == "{word}"', f'context.args has to && context.args.to == "{word}"'
        case 2:
            listed = f'["{word}", {number}]'
            return f"has(args.to) && args.to in {listed}", f"context.args has to && {listed}.contains(context.args.to)"
        case 3:
            cel_text = f'has(args.to) && args.to.startsWith("{word}")'
            return cel_text, f'context.args has to && context.args.to like "{word}*"'
        case 4:
            return (
                f"has(args.amount) && args.amount == '{word}'",
                f'context.args has amount && context.args.amount == "{word}"',
            )
        case _:
            return ("has(args.deep) && has(args.deep.a)", "context.args has deep && context.args.deep has a")


def _request(dice: random.Random) -> dict[str, Any]:
    args: dict[str, Any] = {}
    if dice.random() < 0.7:
        args["amount"] = dice.choice((0, 5, 7, 100, 1000))
    if dice.random() < 0.7:
        args["to"] = dice.choice(("a", "ann", "bob", ""))
    if dice.random() < 0.5:
        args["deep"] = dice.choice(({}, {"a": 1}, {"b": "a"}))
    names = {key: dice.choice(PEOPLE) for key in ("network", "agent", "caller")}
    return {**names, "tool": dice.choice(TOOLS), "args": args}


def _by_cedar(rules: list[Rule], texts: dict[str, str], asked: list[dict[str, Any]]) -> list[str]:
    """Decide twice: is it allowed at all, and is it allowed without a person?"""
    passes = [
        _cedar(rules, texts, permit=("allow", "require_approval"), forbid=("deny",)),
        _cedar(rules, texts, permit=("allow",), forbid=("deny", "require_approval")),
    ]
    requests = [_cedar_request(request) for request in asked]
    found = [cedarpy.is_authorized_batch(requests, text, []) for text in passes]
    for result in (*found[0], *found[1]):
        assert not result.diagnostics.errors, result.diagnostics.errors
    return [
        "allow" if alone.allowed else "require_approval" if at_all.allowed else "deny"
        for at_all, alone in zip(*found, strict=True)
    ]


def _cedar(rules: list[Rule], texts: dict[str, str], *, permit: tuple[str, ...], forbid: tuple[str, ...]) -> str:
    lines = []
    for rule in rules:
        word = "permit" if rule.effect in permit else "forbid" if rule.effect in forbid else ""
        if word:
            names = ("network", "agent", "caller", "tool")
            tests = [f"context.{name} like {json.dumps(getattr(rule, name))}" for name in names]
            lines.append(
                f"{word}(principal, action, resource) when {{ {' && '.join([*tests, f'({texts[rule.name]})'])} }};"
            )
    return "\n".join(lines)


def _cedar_request(request: dict[str, Any]) -> dict[str, Any]:
    return {"principal": 'A::"a"', "action": 'Action::"call"', "resource": 'T::"t"', "context": request}


def main() -> int:
    """Compare with both; print one line each, and the first differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conditions", type=int, default=20_000)
    parser.add_argument("--matrices", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for engine, (said, differing) in (
        ("cel-expr-python, conditions", conditions(options.conditions, options.seed)),
        ("cedarpy, decisions", matrices(options.matrices, options.seed)),
    ):
        failed += len(differing)
        sys.stdout.write(f"{engine}: {sum(said.values())} compared, {len(differing)} differ, answers {dict(said)}\n")
        sys.stdout.writelines(f"  {line}\n" for line in differing[:3])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
