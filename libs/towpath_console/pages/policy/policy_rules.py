"""The rules of the policy in force, as far as they speak of what is asked for."""

from collections.abc import Mapping
from typing import Any

from towpath_console.page import Asked, Page
from towpath_console.pages.policy.rule_words import rule_limits, rule_who
from towpath_contracts.tools.name_globs import name_matches

SHOWN = 100
EFFECTS = ("allow", "require_approval", "deny")


async def rules(asked: Asked) -> Page:
    """Make the list of the rules that the query asks for, in the order of the policy."""
    policy = await asked.api.get("/v1/policy")
    query = asked.query
    found = [rule for rule in policy["rules"] if _fits(rule, query)]
    begin = int(query["from"]) if query.get("from", "").isdecimal() else 0
    shown = found[begin : begin + SHOWN]
    data = {"version": policy["version"], "total": len(found), "rules": shown}
    view = {
        "policy": {name: policy[name] for name in ("version", "digest", "applied_at", "applied_by", "note")},
        "rules": [rule | {"who": rule_who(rule), "limits": rule_limits(rule)} for rule in shown],
        "total": len(found),
        "all": len(policy["rules"]),
        "begin": begin,
        "after": begin + SHOWN if begin + SHOWN < len(found) else None,
        "effects": EFFECTS,
        "filters": {name: query[name] for name in ("q", "network", "agent", "tool", "effect") if query.get(name)},
        "tab": "rules",
    }
    return Page("Rules of the policy", "policy/rules.html", data, view)


def _fits(rule: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Return whether a rule speaks of the network, agent and tool that are named, and has the words of `q`."""
    named = all(name_matches(rule[name], query[name]) for name in ("network", "agent", "tool") if query.get(name))
    if not named or (query.get("effect") and rule["effect"] != query["effect"]):
        return False
    words = query.get("q", "").lower().split()
    text = " ".join(str(rule[name] or "") for name in ("name", "tool", "agent", "network", "when", "note", "owner"))
    return all(word in text.lower() for word in words)
