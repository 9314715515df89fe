"""The network, the tools and the matrix of every simulated world."""

import json
import random
from typing import Any

from tests.simulation.children import ONLY_EXPERTS, child_decision
from tests.simulation.goals import goal_decision
from tests.simulation.objectives import OWN, objective_decision
from tests.simulation.outside.database import BEGAN
from tests.simulation.outside.people import PROJECT
from tests.simulation.plans import network_of
from tests.support.engine.machine import agent, respond, route, snapshot, tool, use, use_all

from towpath_contracts.canonical import canonical_json, digest
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_contracts.tools.internal_tools import INTERNAL_TOOLS
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import rule_row
from towpath_tas.core.tools.registry import spec_digest
from towpath_testing.tables.ledger_rows import LedgerRows
from towpath_testing.tables.run_rows import RunRows

TIMEOUT_MS = 2_000


def _tool(name: str, effect_class: EffectClass) -> ToolSpec:
    more = {"has_probe": True} if effect_class is EffectClass.RECONCILABLE else {}
    known = {key: value for key, value in more.items() if key in ToolSpec.model_fields}
    return tool(name, toolset="sim", effect_class=effect_class, timeout_ms=TIMEOUT_MS, **known)


TOOLS = (
    _tool("look", EffectClass.PURE),
    _tool("put", EffectClass.IDEMPOTENT),
    _tool("move", EffectClass.RECONCILABLE),
    _tool("pay", EffectClass.IRREVERSIBLE),
    _tool("wire", EffectClass.IRREVERSIBLE),
    _tool("purge", EffectClass.IRREVERSIBLE),
)
NAMES = tuple(one.name for one in TOOLS)
NETWORK = snapshot(
    agent("clerk", equipped_tools=(*NAMES, *OWN), allowed_routes=("expert",), allow_respond=True),
    agent("expert", equipped_tools=(*NAMES, *OWN), allowed_routes=("clerk",), allow_respond=True),
    tools=(*TOOLS, *(INTERNAL_TOOLS[name] for name in OWN)),
    max_steps=5,
    timeout_ms=240_000,
    step_timeout_ms=4_000,
)
PLAN_NETWORK = network_of(TOOLS)

RULES = (
    Rule(name="all", effect="allow", tool="*"),
    Rule(name="some-puts", effect="allow", tool="put", max_calls_per_run=3),
    Rule(name="people-first", effect="require_approval", tool="wire", expires_s=600),
    Rule(name="never", effect="deny", tool="purge"),
)


def publish_fixtures(
    runs: RunRows, ledger: LedgerRows, network: NetworkSnapshot = NETWORK, *, children: bool = False
) -> None:
    """Publish the network, register the tools, apply the matrix."""
    runs.callers["alice"] = PROJECT
    content = network.model_dump(mode="json")
    runs.snapshots[digest(content)] = canonical_json(content)
    version = {"project": PROJECT, "name": "desk", "version": 1, "digest": digest(content)}
    runs.versions.append({**version, "published_at": BEGAN, "published_by": "ann"})
    ledger.versions[PROJECT] = (1, 1)
    rules = (*RULES[:-1], ONLY_EXPERTS) if children else RULES
    ledger.rules_of[PROJECT] = [json.dumps(rule_row(rule)) for rule in rules]
    ledger.tools_of[PROJECT] = [
        {
            "name": one.name,
            "version": 1,
            "digest": spec_digest(one),
            "spec": one.model_dump_json(),
            "owner": "ann",
            "held_by": 0,
            "doubt": "",
        }
        for one in TOOLS
    ]


def change_rules(ledger: LedgerRows) -> None:
    """Apply the same matrix again, as another version."""
    policy, registry = ledger.versions[PROJECT]
    ledger.versions[PROJECT] = (policy + 1, registry)


class ModelAnswers:
    """What models want, drawn anew for every request: two answers to one question may differ."""

    def __init__(self, chance: random.Random, *, children: bool = False) -> None:
        self._chance = chance
        self._goals = child_decision if children else goal_decision

    def __call__(self, request: DecisionRequest) -> dict[str, Any]:
        chance = self._chance
        if request.context.run_kind == "background":
            return objective_decision(request, chance)
        if request.context.run_kind == "goal":
            return self._goals(request, chance)
        draw = chance.random()
        if draw < 0.12 + 0.08 * request.step:
            return respond(chance.choice(("done", {"answer": 42})))
        seen = request.context.outputs
        if 0.6 < draw < 0.66 and seen:
            return use("output_read", execution_id=str(chance.choice(seen).execution_id), limit=5)
        if draw < 0.66:
            return use(chance.choice(NAMES[:5]), text=chance.choice("abcdefgh"))
        if draw < 0.92:
            several = [(chance.choice(NAMES), {"text": f"{place}{chance.choice('abcd')}"}) for place in range(3)]
            return use_all(*several)
        if draw < 0.96:
            other = "expert" if request.context.agent_key == "clerk" else "clerk"
            return route(other, "ask")
        return {"action": "DANCE"}
