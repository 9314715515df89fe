"""The matrix against a brute-force oracle that reads the YAML text itself and shares no code with the platform.

`python -m tests.oracles.matrix --pairs 100000 [--seed 1]` compares the answers to random (rules, request) pairs: the
effect, the rule named for it, every deciding rule in order, and which limit was used up.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import yaml
from tests.oracles.plain_cel import condition
from tests.oracles.policy_texts import DISCOVERED, OPERATIONS, REQUIRED, TOOLS, Question, policy_text, question

from towpath_contracts.canonical import canonical_json
from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix
from towpath_tas.core.policy.policy_file import read_policy
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion

PER_POLICY = 4
"""Questions about one policy: reading it costs more than answering."""

LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""It makes nothing but text of what it reads."""

Answer = tuple[str, str | None, tuple[str, ...]]
"""The effect, the rule named for it, and all rules that decided."""


def glob(pattern: str, text: str) -> bool:
    """Match `*`, `?`, `[abc]`, `[a-c]`, `[!abc]` by trying everything; an unclosed bracket is a letter."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(glob(pattern[1:], text[place:]) for place in range(len(text) + 1))
    if not text:
        return False
    if pattern[0] == "?":
        return glob(pattern[1:], text[1:])
    if pattern[0] == "[":
        start = 2 if pattern[1:2] == "!" else 1
        end = pattern.find("]", start + 1)
        if end > 0:
            return _in_set(pattern[start:end], text[0]) is (start == 1) and glob(pattern[end + 1 :], text[1:])
    return pattern[0] == text[0] and glob(pattern[1:], text[1:])


def _in_set(letters: str, letter: str) -> bool:
    place = 0
    while place < len(letters):
        if letters[place + 1 : place + 2] == "-" and place + 2 < len(letters):
            if letters[place] <= letter <= letters[place + 2]:
                return True
            place += 3
        elif letters[place] == letter:
            return True
        else:
            place += 1
    return False


def answer(text: str, asked: Question) -> Answer:
    """Decide rule by rule, from the text of the policy."""
    if asked.tool not in TOOLS or asked.operation not in ("call", OPERATIONS[asked.tool]) or not _takes(asked):
        return ("deny", None, ())
    met = _met(text, asked)
    if met["deny"]:
        return _answer("deny", met["deny"])
    if asked.tool in DISCOVERED:
        met["allow"] = [rule for rule in met["allow"] if _names(rule)]
        if not any(map(_names, met["require_approval"] + met["allow"])):
            return ("deny", None, ())
    for rule in met["require_approval"] + met["allow"]:
        if _used_up(rule, asked):
            return _answer("deny", [rule])
    for effect in ("require_approval", "allow"):
        if met[effect]:
            return _answer(effect, met[effect])
    return ("deny", None, ())


def _met(text: str, asked: Question) -> dict[str, list[dict[str, Any]]]:
    met: dict[str, list[dict[str, Any]]] = {"deny": [], "require_approval": [], "allow": []}
    for rule in yaml.load(text, Loader=LOADER)["rules"]:
        if _speaks_of(rule, asked):
            said = condition(rule["when"], asked.context()) if "when" in rule else "yes"
            if said == "yes" or (said == "unclear" and rule["effect"] != "allow"):
                met[rule["effect"]].append(rule)
    return met


def _answer(effect: str, rules: list[dict[str, Any]]) -> Answer:
    return (effect, rules[0]["name"], tuple(rule["name"] for rule in rules))


def _takes(asked: Question) -> bool:
    kinds = {"number": (int, float), "string": (str,)}
    for name, kind in REQUIRED.get(asked.tool, {}).items():
        value = asked.args.get(name)
        if not isinstance(value, kinds[kind]) or isinstance(value, bool):
            return False
    return True


def _speaks_of(rule: dict[str, Any], asked: Question) -> bool:
    who = rule.get("who", {})
    pairs = [
        (who.get(key, "*"), getattr(asked, key)) for key in ("project", "network", "agent", "agent_type", "caller")
    ]
    pairs += [(rule.get("tool", "*"), asked.tool), (rule.get("operation", "*"), OPERATIONS[asked.tool])]
    return all(glob(pattern, value) for pattern, value in pairs)


def _names(rule: dict[str, Any]) -> bool:
    """Whether a rule names a discovered tool: the tool itself, or its toolset (`web.…`) on purpose."""
    return not set("*?[") & set(rule.get("tool", "*")) or rule.get("discovered") == "true"


def _used_up(rule: dict[str, Any], asked: Question) -> bool:
    if "max_calls_per_run" in rule and asked.used[rule["name"]] >= int(rule["max_calls_per_run"]):
        return True
    if "rate" in rule and asked.rates[rule["name"]] >= int(rule["rate"]["calls"]):
        return True
    most = float(rule.get("max_cost_per_run_usd", "inf"))
    return most != float("inf") and (asked.spent_usd is None or asked.spent_usd >= most)


def bundle_of(text: str) -> ProjectAuthorizer:
    """Return the platform's policy bundle; raises ValueError where it refuses the text."""
    found = read_policy(text, compile_condition)
    if found.problems:
        raise ValueError(str(found.problems))
    tools = []
    for name in TOOLS:
        needed = REQUIRED.get(name, {})
        parameters = {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in needed.items()},
            "required": list(needed),
        }
        spec = ToolSpec(
            name=name,
            toolset=name.partition(".")[0],
            operation=OPERATIONS[name],
            parameters=parameters,
            discovered=name in DISCOVERED,
        )
        tools.append(ToolVersion(spec=spec, version=1, digest="d", owner="o"))
    return ProjectAuthorizer(
        Matrix(found.rules, compile_condition, 1), ProjectToolRegistry(tools, matches, 1), compile_grant
    )


def query_of(question: Question) -> AuthorizationQuery:
    """Return the query in the platform's form."""
    return AuthorizationQuery(
        run_id=UUID(int=1),
        project=question.project,
        principal=CallPrincipal(
            question.network, question.agent, question.agent_type, question.caller, question.project
        ),
        step=question.step,
        tool=question.tool,
        operation=question.operation,
        args=question.args,
        args_text=canonical_json(question.args),
        labels=question.labels,
        spent_usd=question.spent_usd,
    )


def platform_answer(bundle: ProjectAuthorizer, question: Question) -> Answer:
    """Return the platform's decision in the oracle's form."""
    asked = query_of(question)
    decision = bundle.authorize(asked, question.used, question.rates)
    if decision.effect != "deny":
        return (decision.effect, decision.rule, tuple(name for name, _ in decision.basis))
    if decision.rule is None:
        return ("deny", None, ())
    return ("deny", decision.rule, ())


def pairs(count: int, seed: int) -> Iterator[tuple[str, Question, Answer, Answer]]:
    """Yield random pairs with the platform's answer and the oracle's."""
    dice = random.Random(seed)
    bundle, text = None, ""
    for number in range(count):
        if number % PER_POLICY == 0:
            text = policy_text(dice)
            bundle = bundle_of(text)
        assert bundle is not None
        asked = question(dice)
        expected = answer(text, asked)
        if expected[0] == "deny":
            expected = (*expected[:2], ())  # a denial names one rule
        yield text, asked, platform_answer(bundle, asked), expected


def main() -> int:
    """Compare; print one line, and the first difference if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.perf_counter()
    said: Counter[str] = Counter()
    for text, asked, got, expected in pairs(options.pairs, options.seed):
        said[got[0]] += 1
        if got != expected:
            sys.stdout.write(f"{text}\n{asked}\nplatform: {got}\noracle:   {expected}\n")
            return 1
    took = time.perf_counter() - began
    sys.stdout.write(f"{options.pairs} pairs, 0 differences, {took:.0f} s, answers {dict(said)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
