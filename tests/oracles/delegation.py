"""Random trees of tasks that delegate work, each with a grant, against an oracle that shares no code with the product.

`python -m tests.oracles.delegation --trees 10000 [--seed 1]` makes each run as the orchestrator does (a child under its
parent's grants, a handoff and a fork under the same ones), asks for a decision on many calls of every run, and
compares: allowed is what the matrix and *every* grant from the root down allow; a child may do nothing that the grants
of its parent exclude; what a model is offered as an alternative is allowed; and an agent named as a specialist may make
the very call.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

from towpath_contracts.canonical import canonical_json
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import CompiledAgent, NetworkSnapshot, NetworkVersion
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.calls import ToolRequest, ToolSpec
from towpath_contracts.tools.grants import grant_chain
from towpath_engine.requests.network_context import offered_tools
from towpath_orchestrator.core.tasks import created_event
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.core.authorization import AuthorizationDecision, ProjectAuthorizer
from towpath_tas.core.authorization_query import query_of_request
from towpath_tas.core.denial_alternatives import directory_of
from towpath_tas.core.policy.matrix import Matrix, Rule
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion

AGENTS = ("lead", "clerk", "expert")
TOOLS = {"mail.send": "send", "mail.read": "read", "shop.refund": "write", "shop.find": "read", "web.get": "read"}
PATTERNS = (*TOOLS, "*", "mail.*", "shop.*", "*.read", "*.[fs]*", "web.???", "nothing")
OPERATIONS = ("*", "read", "write", "send", "re*")
AMOUNTS = (1, 7, 50)
WHENS = (None, None, "args.amount < 5", "args.amount < 10", "args.amount >= 10", "agent.key == 'clerk'")
BROKEN = ("args.nothing == 1", "args.amount", "1 / 0 == 1")
"""Conditions that err, or answer no boolean: in a grant they let nothing through, in a rule they only restrict."""

PARAMETERS = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


@dataclass(kw_only=True)
class Node:
    """One task of a tree."""

    agent: str
    grant: list[dict[str, Any]] | None
    parent: "Node | None" = None
    same_run: bool = False
    created: RunCreated | None = None


@dataclass(kw_only=True)
class Tree:
    """A network with its rules and tools, and the tasks that were delegated in it."""

    rules: list[dict[str, Any]]
    discovered: set[str]
    equipped: dict[str, list[str]]
    nodes: list[Node] = field(default_factory=list)


# The oracle: everything down to `grow` shares no code with the platform, and is simple enough to be trusted.


def covers(pattern: str, text: str) -> bool:
    """Match `*`, `?` and `[abc]` by trying everything."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return covers(pattern[1:], text) or (bool(text) and covers(pattern, text[1:]))
    if not text:
        return False
    if pattern[0] == "[":
        end = pattern.index("]")
        return text[0] in pattern[1:end] and covers(pattern[end + 1 :], text[1:])
    return pattern[0] in ("?", text[0]) and covers(pattern[1:], text[1:])


def holds(when: str | None, agent: str, amount: int) -> bool | None:
    """Evaluate one of the conditions above by hand; None is an error."""
    match when:
        case None:
            return True
        case "args.amount < 5":
            return amount < 5
        case "args.amount < 10":
            return amount < 10
        case "args.amount >= 10":
            return amount >= 10
        case "agent.key == 'clerk'":
            return agent == "clerk"
        case _:
            return None


def by_matrix(tree: Tree, agent: str, tool: str, amount: int) -> str:
    """Return the verdict of the rules alone."""
    said = set()
    for rule in tree.rules:
        if not covers(rule["tool"], tool) or not covers(rule["operation"], TOOLS[tool]):
            continue
        if not covers(rule["agent"], agent):
            continue
        met = holds(rule["when"], agent, amount)
        if met is False or (met is None and rule["effect"] == "allow"):
            continue
        on_purpose = rule["tool"] == tool or (rule["discovered"] and "." in rule["tool"].partition("*")[0])
        said.add((rule["effect"], on_purpose))
    effects = {effect for effect, _ in said}
    if tool in tree.discovered:
        if not any(on_purpose and effect != "deny" for effect, on_purpose in said):
            return "deny"
        effects -= {"allow"} - {effect for effect, on_purpose in said if on_purpose}
    return next((effect for effect in ("deny", "require_approval", "allow") if effect in effects), "deny")


def by_grants(node: Node, agent: str, tool: str, amount: int) -> bool:
    """Return whether every grant from here up to the root allows the call."""
    one: Node | None = node
    while one is not None:
        if one.grant is not None and not one.same_run:
            entries = [entry for entry in one.grant if covers(entry["tool"], tool)]
            fitting = [entry for entry in entries if covers(entry["operation"], TOOLS[tool])]
            if not any(holds(entry["when"], agent, amount) is True for entry in fitting):
                return False
        one = one.parent
    return True


def oracle(tree: Tree, node: Node, agent: str, tool: str, amount: int) -> str:
    """Return the expected verdict."""
    return by_matrix(tree, agent, tool, amount) if by_grants(node, agent, tool, amount) else "deny"


def grow(dice: random.Random) -> Tree:
    """Draw a network and a tree of tasks: children, handoffs and forks."""
    whens = (*WHENS, dice.choice(BROKEN))
    rules = [
        {
            "effect": dice.choice(("allow", "allow", "allow", "allow", "require_approval", "deny")),
            "tool": dice.choice((*PATTERNS, "*", "*", "*")),
            "operation": dice.choice(("*", "*", "*", *OPERATIONS)),
            "agent": dice.choice(("*", "*", "*", *AGENTS, "[ec]*")),
            "when": dice.choice((None, None, None, *whens)),
            "discovered": dice.random() < 0.3,
        }
        for _ in range(dice.randint(1, 7))
    ]
    tree = Tree(
        rules=rules,
        discovered={tool for tool in TOOLS if dice.random() < 0.2},
        equipped={agent: sorted(dice.sample(list(TOOLS), dice.randint(1, len(TOOLS)))) for agent in AGENTS},
    )
    tree.nodes.append(Node(agent=dice.choice(AGENTS), grant=_grant(dice, whens)))
    for _ in range(dice.randint(2, 6)):
        parent = dice.choice(tree.nodes)
        same = dice.random() < 0.25  # a handoff, or a fork: the same task goes on, perhaps with another agent
        grant = parent.grant if same else _grant(dice, whens)
        tree.nodes.append(Node(agent=dice.choice(AGENTS), grant=grant, parent=parent, same_run=same))
    return tree


def _grant(dice: random.Random, whens: Sequence[str | None]) -> list[dict[str, Any]] | None:
    if dice.random() < 0.4:
        return None
    wide = (*PATTERNS, "*", "*", "*", "*.[rsf]*", "*.[rfg]*")
    return [
        {
            "tool": dice.choice(wide),
            "operation": dice.choice(("*", "*", "*", *OPERATIONS)),
            "when": dice.choice((None, None, None, None, *whens)),
        }
        for _ in range(dice.choice((0, 1, 2, 2, 3, 4, 5)))
    ]


# From here on the platform decides.


@lru_cache(maxsize=256)
def _condition(text: str) -> Any:
    return compile_condition(text)


def specs(tree: Tree) -> list[ToolSpec]:
    """Return the tools as their workers offer them."""
    said = {"parameters": PARAMETERS, "effect_class": "idempotent"}
    return [
        ToolSpec.model_validate(
            {"name": name, "toolset": name.partition(".")[0], "operation": operation, **said}
            | {"discovered": name in tree.discovered}
        )
        for name, operation in TOOLS.items()
    ]


def snapshot_of(tree: Tree) -> NetworkSnapshot:
    """Return the network as it was published."""
    agents = {
        key: CompiledAgent(key=key, model="scripted:task", equipped_tools=tuple(tools), allowed_routes=AGENTS)
        for key, tools in tree.equipped.items()
    }
    limits = {"max_steps": 5, "max_tool_errors": 5, "timeout_ms": 1_000, "step_timeout_ms": 1_000}
    return NetworkSnapshot.model_validate(
        {"network": "n", "default_agent_key": "lead", "agents": agents, **limits}
        | {"tools": {spec.name: spec for spec in specs(tree)}}
    )


def bundle_of(tree: Tree, snapshot: NetworkSnapshot) -> ProjectAuthorizer:
    """Return the rules as the tool-access service has them in memory."""
    rules = [Rule(name=f"r{place}", **rule) for place, rule in enumerate(tree.rules)]
    tools = [ToolVersion(spec=spec, version=1, digest=spec.name) for spec in snapshot.tools.values()]
    bundle = ProjectAuthorizer(Matrix(rules, _condition, 1), ProjectToolRegistry(tools, matches, 1), compile_grant)
    bundle.directories = {"sha256:n": directory_of(snapshot)}
    return bundle


def submit(tree: Tree, snapshot: NetworkSnapshot) -> None:
    """Make every task a run, from the root down."""
    version = {"project": "p", "name": "n", "version": 1, "digest": "sha256:n", "published_at": "2026-11-22T00:00:00Z"}
    network = NetworkVersion.model_validate({**version, "published_by": "ann"})
    for node in tree.nodes:
        above = None if node.parent is None else node.parent.created
        if node.same_run:
            node.created = above
            continue
        task = SubmitTask.model_validate({"network": "n", "user_message": "go", "grant": node.grant})
        made = created_event(task, network, snapshot, "alice", None, above)
        node.created = RunCreated.model_validate_json(made.model_dump_json())  # as it is stored


def ask(bundle: ProjectAuthorizer, node: Node, agent: str, tool: str, amount: int) -> AuthorizationDecision:
    """Have a call of *node*'s run decided, as it arrives on the wire."""
    assert node.created is not None
    said = {"execution_id": UUID(int=2), "run_id": UUID(int=1), "project": "p", "network": "n"}
    task = {"snapshot_digest": "sha256:n", "agent_key": agent, "caller": "alice", "step": 1, "call_index": 0}
    what = {"tool": tool, "toolset": "t", "args": {"amount": amount}, "fence": 0, "deadline": "2026-11-22T00:00:00Z"}
    chain = grant_chain(node.created.grants, node.created.grant)
    request = ToolRequest.model_validate({**said, **task, **what, "grant": node.created.grant, "grants": chain})
    request = ToolRequest.model_validate_json(request.model_dump_json())
    return bundle.authorize(query_of_request(request, canonical_json(request.args)))


def judged(
    tree: Tree, bundle: ProjectAuthorizer, snapshot: NetworkSnapshot, node: Node, said: Counter[str]
) -> Iterator[str]:
    """Yield what is wrong with the answers to one run."""
    for tool in TOOLS:
        for amount in AMOUNTS:
            decision = ask(bundle, node, node.agent, tool, amount)
            expected = oracle(tree, node, node.agent, tool, amount)
            said[expected] += 1
            call = f"{node.agent} {tool} {amount}"
            if decision.effect != expected:
                yield f"{call}: platform {decision.effect}, oracle {expected}"
            above = node.parent
            if decision.effect != "deny" and above is not None and not by_grants(above, node.agent, tool, amount):
                yield f"{call}: a child may what its parent's grants bar"
            yield from _rungs(tree, node, decision, tool, amount)
    assert node.created is not None
    shown = offered_tools(snapshot, snapshot.agents[node.agent], grant_chain(node.created.grants, node.created.grant))
    for tool in {one.name for one in shown} ^ set(tree.equipped[node.agent]):
        if any(by_grants(node, node.agent, tool, amount) for amount in AMOUNTS):
            yield f"{node.agent} is not shown {tool}, which its grants let through"


def _rungs(tree: Tree, node: Node, decision: AuthorizationDecision, tool: str, amount: int) -> Iterator[str]:
    denial = decision.denial
    if denial is None:
        return
    for other in denial.specialists:
        right = oracle(tree, node, other.agent_key, tool, amount)
        if right != other.verdict or tool not in tree.equipped[other.agent_key]:
            yield f"{other.agent_key} is named for {tool} {amount} as {other.verdict}; oracle {right}"
    for other in denial.alternatives:
        rights = {oracle(tree, node, node.agent, other.tool, each) for each in AMOUNTS}
        if other.tool not in tree.equipped[node.agent] or (not other.conditional and rights != {other.verdict}):
            yield f"{node.agent} is told of {other.tool} as {other}; oracle {rights}"
    named = {other.agent_key for other in denial.specialists}
    for agent in AGENTS:
        right = oracle(tree, node, agent, tool, amount)
        if agent != node.agent and agent not in named and tool in tree.equipped[agent] and right != "deny":
            yield f"{agent} may do {tool} {amount} and is not named"


def trees(count: int, seed: int, said: Counter[str]) -> Iterator[tuple[Tree, list[str]]]:
    """Yield random trees, each with everything that is wrong in it."""
    dice = random.Random(seed)
    for _ in range(count):
        tree = grow(dice)
        snapshot = snapshot_of(tree)
        bundle = bundle_of(tree, snapshot)
        submit(tree, snapshot)
        yield tree, [fault for node in tree.nodes for fault in judged(tree, bundle, snapshot, node, said)]


def main() -> int:
    """Compare; print one line, and the first tree that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.perf_counter()
    said: Counter[str] = Counter()
    for tree, faults in trees(options.trees, options.seed, said):
        if faults:
            sys.stdout.write("\n".join([*map(str, tree.rules), *map(str, tree.nodes), *faults, ""]))
            return 1
    took = time.perf_counter() - began
    calls = sum(said.values())
    sys.stdout.write(f"{options.trees} trees, {calls} calls, 0 escalations, {took:.0f} s, answers {dict(said)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
