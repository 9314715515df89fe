"""Do the cases of a policy test notice changes of the policy? Breaks the matrix one way at a time and runs the cases.

`python -m tests.oracles.policy_mutants [TEST.yaml]` drops every rule, inverts its effect, widens or narrows each of its
names, limits and conditions, and prints how many of these mutants fail at least one case, and those that survive. What
no verdict shows (quorum, expiry, notes) is not mutated.
"""

import argparse
import copy
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.support.places import ROOT

from towpath_contracts.files.policy_tests import PolicyTestCase
from towpath_tas.adapters.cel import compile_condition, compile_grant
from towpath_tas.core.expectations import failures, read_expectations
from towpath_tas.core.policy.matrix import Matrix
from towpath_tas.core.policy.policy_file import read_policy

SAMPLE = ROOT / "examples/policies/shop-test.yaml"
EFFECTS = ("allow", "deny", "require_approval")
ONLY_ASKED = ("quorum", "expires_s", "on_expiry")
LIMITS = ("max_calls_per_run", "rate", "max_cost_per_run_usd")
OPERATORS = {"<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}

COMPILER = functools.cache(compile_condition)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

Document = dict[str, Any]


class Result(NamedTuple):
    """How many mutants there were, and what was done to those that no case noticed."""

    made: int
    survived: tuple[str, ...]


def mutants(policy: Document) -> Iterator[tuple[str, Document]]:
    """Yield every mutant of *policy* with what was done to it."""
    for place, rule in enumerate(policy["rules"]):
        yield f"{rule['name']}: dropped", _with(policy, place, None)
        for what, changed in (*_effects(rule), *_names(rule), *_limits(rule), *_conditions(rule)):
            yield f"{rule['name']}: {what}", _with(policy, place, changed)


def _with(policy: Document, place: int, rule: Document | None) -> Document:
    mutant = copy.deepcopy(policy)
    mutant["rules"][place : place + 1] = [] if rule is None else [rule]
    return mutant


def _without(rule: Document, *keys: str) -> Document:
    return {key: copy.deepcopy(value) for key, value in rule.items() if key not in keys}


def _effects(rule: Document) -> Iterator[tuple[str, Document]]:
    for effect in EFFECTS:
        if effect != rule["effect"]:
            dropped = (() if effect == "require_approval" else ONLY_ASKED) + (
                () if effect != "deny" else (*LIMITS, "discovered")
            )
            yield f"effect is {effect}", {**_without(rule, *dropped), "effect": effect}


def _names(rule: Document) -> Iterator[tuple[str, Document]]:
    for key in rule.get("who", {}):
        yield f"for every {key}", {**rule, "who": _without(rule["who"], key)}
        yield f"for no {key}", {**rule, "who": {**rule["who"], key: "nobody-at-all"}}
    for key in ("tool", "operation"):
        if key in rule:
            yield f"for every {key}", _without(rule, key, "discovered" if key == "tool" else "")
            yield f"for no {key}", {**_without(rule, "discovered"), key: "nothing-at-all"}
    family, dot, last = rule.get("tool", "*").rpartition(".")
    if dot and last != "*":
        yield "for the whole toolset", {**rule, "tool": f"{family}.*"}
    if "discovered" in rule:
        yield "not for discovered tools", _without(rule, "discovered")


def _limits(rule: Document) -> Iterator[tuple[str, Document]]:
    for key in LIMITS:
        if key in rule:
            yield f"without {key}", _without(rule, key)
    if "max_calls_per_run" in rule:
        for step in (-1, 1):
            yield f"one call {step:+}", {**rule, "max_calls_per_run": rule["max_calls_per_run"] + step}
    if "rate" in rule:
        for step in (-1, 1):
            yield f"rate {step:+}", {**rule, "rate": {**rule["rate"], "calls": rule["rate"]["calls"] + step}}
    if "max_cost_per_run_usd" in rule:
        for step in (-0.01, 0.01):
            yield f"cost {step:+}", {**rule, "max_cost_per_run_usd": round(rule["max_cost_per_run_usd"] + step, 2)}


def _conditions(rule: Document) -> Iterator[tuple[str, Document]]:
    if "when" not in rule:
        return
    text = rule["when"]
    yield "whatever the arguments", _without(rule, "when")
    yield "never", {**rule, "when": "false"}
    yield "condition inverted", {**rule, "when": f"!({text})"}
    for found in re.finditer(r"<=|>=|==|!=|&&|\|\||<|>", text):
        other = OPERATORS[found[0]]
        yield f"{found[0]} is {other}", {**rule, "when": f"{text[: found.start()]}{other}{text[found.end() :]}"}
    for found in re.finditer(r"\b\d+(\.\d+)?\b", text):
        yield f"{found[0]} times ten", {**rule, "when": f"{text[: found.start()]}{found[0]}0{text[found.end() :]}"}
    for found in re.finditer(r"'[^']*'", text):
        yield f"{found[0]} is another text", {**rule, "when": f"{text[: found.start()]}'zz'{text[found.end() :]}"}
    for sign in ("&&", "||"):
        parts = text.split(sign)
        for place in range(len(parts) if len(parts) > 1 else 0):
            kept = sign.join(parts[:place] + parts[place + 1 :]).strip()
            yield f"without {parts[place].strip()}", {**rule, "when": kept}


def measure(test: Path) -> Result:
    """Put every mutant of the policy that *test* is about to its cases; the policy itself must pass them."""
    read = read_expectations(test.read_text("utf-8"))
    assert read.found is not None, read.problems
    assert read.found.policy is not None, "the test names no policy"
    policy = yaml.safe_load((test.parent / read.found.policy).read_text("utf-8"))
    assert not _noticed(policy, read.found.cases), "the matrix itself does not answer as expected"
    made = list(mutants(policy))
    return Result(len(made), tuple(what for what, mutant in made if not _noticed(mutant, read.found.cases)))


def _noticed(policy: Document, cases: tuple[PolicyTestCase, ...]) -> bool:
    found = read_policy(yaml.dump(policy, Dumper=DUMPER), COMPILER)
    assert not found.problems, found.problems
    return bool(failures(Matrix(found.rules, COMPILER), cases, compile_grant))


def main() -> int:
    """Measure; print one line, and the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", type=Path, nargs="?", default=SAMPLE)
    result = measure(parser.parse_args().test)
    killed = result.made - len(result.survived)
    sys.stdout.write(f"{killed} of {result.made} mutants noticed ({killed / result.made:.1%})\n")
    sys.stdout.writelines(f"  survived: {what}\n" for what in result.survived)
    return 0 if killed >= 0.95 * result.made else 1


if __name__ == "__main__":
    sys.exit(main())
