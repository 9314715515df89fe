"""How long a decision takes: schema check, grant, matrix and conditions, in one process, without any I/O.

`uv run python bench/policy.py [--rules 1000] [--questions 20000]` prints one JSON line; times are microseconds.
The matrix: 20 tools for each of the agents, each with a rule that weighs three arguments (allow, or ask a person), and
ten prohibitions for everybody that weigh an argument too. Every question is a new one, so nothing but the lookup of
rules by names is remembered. `first` is the same for names that were never asked about.
"""

import argparse
import json
import random
import statistics
import time
from collections import Counter
from typing import Any
from uuid import UUID

from towpath_contracts.canonical import canonical_json
from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix
from towpath_tas.core.policy.policy_file import read_policy
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion

TOOLS = 20
PROHIBITIONS = 10
PARAMETERS = {
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "region": {"type": "string", "maxLength": 20},
        "items": {"type": "array", "items": {"type": "string"}, "maxItems": 50},
    },
    "required": ["amount", "region"],
}


def policy(rules: int) -> str:
    """Return the matrix as text."""
    lines = ["kind: Policy", "rules:"]
    lines += [
        f'  - {{name: never-{number}, effect: deny, when: "args.amount == {100_000 + number}"}}'
        for number in range(PROHIBITIONS)
    ]
    for number in range(rules - PROHIBITIONS):
        agent, tool = divmod(number, TOOLS)
        effect = "require_approval" if number % 4 == 0 else "allow"
        when = f"args.amount <= {100 + number % 7} && args.region in ['eu', 'us'] && size(args.items) < 9"
        lines.append(
            f'  - {{name: rule-{number}, who: {{agent: agent-{agent}}}, tool: "t{tool % 4}.tool-{tool}", '
            f'effect: {effect}, when: "{when}"}}'
        )
    return "\n".join(lines)


def bundle_of(text: str) -> ProjectAuthorizer:
    """Compile the matrix, and the registry that goes with it."""
    found = read_policy(text, compile_condition)
    if found.problems:
        raise SystemExit(str(found.problems))
    tools = []
    for number in range(TOOLS):
        spec = ToolSpec(name=f"t{number % 4}.tool-{number}", toolset=f"t{number % 4}", parameters=PARAMETERS)
        tools.append(ToolVersion(spec=spec, version=1, digest="d", owner="o"))
    return ProjectAuthorizer(
        Matrix(found.rules, compile_condition, 1), ProjectToolRegistry(tools, matches, 1), compile_grant
    )


def question(dice: random.Random, agents: int, caller: str) -> AuthorizationQuery:
    """Return a random call; about half are allowed."""
    number = dice.randrange(TOOLS)
    args = {
        "amount": dice.choice((5, 50.5, 101, 5_000, 100_003)),
        "region": dice.choice(("eu", "us", "cn")),
        "items": ["a"] * dice.randrange(4),
    }
    return AuthorizationQuery(
        run_id=UUID(int=dice.getrandbits(128)),
        project="default",
        principal=CallPrincipal("support", f"agent-{dice.randrange(agents)}", "", caller, "default"),
        step=dice.randrange(50),
        tool=f"t{number % 4}.tool-{number}",
        operation="call",
        args=args,
        args_text=canonical_json(args),
        labels={"team": "a"},
        spent_usd=0.1,
    )


def figures(times_ns: list[int]) -> dict[str, float]:
    """Return the median and the tail, in microseconds."""
    times = sorted(taken / 1000 for taken in times_ns)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: round(times[int(len(times) * share)], 1) for name, share in at.items()}


def timed(bundle: ProjectAuthorizer, asked: list[AuthorizationQuery], said: Counter[str]) -> dict[str, float]:
    """Decide all of *asked*, one by one."""
    times = []
    for one in asked:
        began = time.perf_counter_ns()
        decision = bundle.authorize(one)
        times.append(time.perf_counter_ns() - began)
        said[decision.effect] += 1
    return figures(times)


def measure(rules: int, questions: int) -> dict[str, Any]:
    """Build the matrix, then decide."""
    text = policy(rules)
    began = time.perf_counter()
    bundle = bundle_of(text)
    read_ms = (time.perf_counter() - began) * 1000
    agents = max(1, (rules - PROHIBITIONS) // TOOLS)
    dice = random.Random(1)
    said: Counter[str] = Counter()
    builds = []
    for _ in range(5):
        began = time.perf_counter()
        bundle = ProjectAuthorizer(Matrix(bundle.matrix.rules, compile_condition, 1), bundle.registry, compile_grant)
        builds.append((time.perf_counter() - began) * 1000)
    first = timed(bundle, [question(dice, agents, f"caller-{n}") for n in range(2_000)], Counter())
    asked = [question(dice, agents, "ann") for _ in range(questions)]
    timed(bundle, asked[: questions // 4], Counter())
    return {
        "bench": "policy",
        "rules": rules,
        "questions": questions,
        "decision_us": timed(bundle, asked, said),
        "first_us": first,
        "read_ms": round(read_ms, 1),
        "build_ms": round(statistics.median(builds), 1),
        "answers": dict(said),
    }


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, default=1_000)
    parser.add_argument("--questions", type=int, default=20_000)
    options = parser.parse_args()
    print(json.dumps(measure(options.rules, options.questions)))


if __name__ == "__main__":
    main()
