"""A rule of the policy in words, and as YAML as it would stand in the policy."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from towpath_console.text import one_line

WHO = ("network", "agent", "agent_type", "caller")

LONGEST_CONDITION = 300

_LIMITS = ("max_calls_per_run", "rate", "max_cost_per_run_usd")
_ASKS = ("expires_s", "quorum", "on_expiry")
_AFTER = {"deny": "it is denied", "escalate": "others are asked"}
_DAY_S = 86_400
_USUAL: dict[str, Any] = {"quorum": 1, "on_expiry": "deny", "expires_s": _DAY_S}
"""What a rule has where it says nothing of it."""


def rule_sentences(rule: Mapping[str, Any]) -> list[str]:
    """Say what a rule does: who may call what and when, then what bounds it, a sentence each."""
    effect = rule.get("effect")
    who, what = _caller_words(rule), _tool_words(rule)
    when = rule.get("when")
    condition = f", where {one_line(when, LONGEST_CONDITION)}" if when else ""
    if effect == "require_approval":
        first = f"{_people(rule, 'is', 'are')} asked before {who} calls {what}{condition}"
    else:
        first = f"{who[:1].upper()}{who[1:]} {'may' if effect == 'allow' else 'may not'} call {what}{condition}"
    return [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in (first, *_bounds(rule), *_unanswered(rule))]


def rule_limits(rule: Mapping[str, Any]) -> list[str]:
    """Say what bounds a rule beside its condition, in short."""
    asks = f"asks {_people(rule)}; after {_hours(rule)} without an answer: {rule.get('on_expiry', 'deny')}"
    return [*_bounds(rule), *([asks] if rule.get("effect") == "require_approval" else [])]


def rule_who(rule: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the members that say of whom a rule speaks."""
    return [(name.replace("_", " "), rule[name]) for name in WHO if rule.get(name, "*") != "*"]


def rule_yaml(rule: Mapping[str, Any]) -> str:
    """Write a rule as it would stand in the policy: what is left as it is by default is left out."""
    who = {name: rule[name] for name in WHO if rule.get(name, "*") != "*"}
    written: dict[str, Any] = {"name": rule.get("name", "")} | ({"who": who} if who else {})
    asks = rule.get("effect") == "require_approval"
    rest = ("tool", "operation", "effect", "when", *_LIMITS, *(_ASKS if asks else ()), "discovered", "note", "owner")
    rate = {"rate": {"calls": rule["rate_calls"], "per_s": rule["rate_per_s"]}} if rule.get("rate_calls") else {}
    for name in rest:
        value = {**rule, **rate}.get(name)
        if value not in (None, "", False) and value != _USUAL.get(name) and (value != "*" or name == "tool"):
            written[name] = value
    return str(yaml.safe_dump([written], allow_unicode=True, sort_keys=False, width=100))


def _hours(rule: Mapping[str, Any]) -> str:
    """Return how long people have to answer."""
    seconds: float = rule.get("expires_s") or _DAY_S
    return f"{seconds / 60:g} min" if seconds < 3600 else f"{seconds / 3600:g} h"


def _caller_words(rule: Mapping[str, Any]) -> str:
    agent, kind, network, caller = (rule.get(name, "*") for name in ("agent", "agent_type", "network", "caller"))
    found = f"agent {agent}" if agent != "*" else f"an agent of type {kind}" if kind != "*" else "any agent"
    found += f" of type {kind}" if agent != "*" and kind != "*" else ""
    found += f" of network {network}" if network != "*" else ""
    return f"{found}, in runs of {caller}," if caller != "*" else found


def _tool_words(rule: Mapping[str, Any]) -> str:
    tool, operation = rule.get("tool", "*"), rule.get("operation", "*")
    found = "any tool" if tool == "*" else str(tool)
    return f"{found} ({operation})" if operation != "*" else found


def _people(rule: Mapping[str, Any], one: str = "", many: str = "") -> str:
    quorum = rule.get("quorum", 1)
    return f"one person {one}".strip() if quorum == 1 else f"{quorum} people {many}".strip()


def _bounds(rule: Mapping[str, Any]) -> Iterable[str]:
    if rule.get("max_calls_per_run") is not None:
        yield f"at most {rule['max_calls_per_run']} calls in a run"
    if rule.get("rate_calls") is not None:
        yield f"at most {rule['rate_calls']} calls in {rule['rate_per_s']} s"
    if rule.get("max_cost_per_run_usd") is not None:
        yield f"until the run has cost ${rule['max_cost_per_run_usd']}"
    if rule.get("discovered"):
        yield "also for tools that a server offers by itself"


def _unanswered(rule: Mapping[str, Any]) -> Iterable[str]:
    if rule.get("effect") == "require_approval":
        after = _AFTER.get(str(rule.get("on_expiry", "deny")), str(rule.get("on_expiry")))
        yield f"after {_hours(rule)} without an answer {after}"
