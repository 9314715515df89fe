"""The rules of the policy in force, as far as they speak of what is asked for."""

from collections.abc import Iterable, Mapping
from typing import Any

from towpath_console.page import Asked, Page
from towpath_contracts.tools.name_globs import name_matches

SHOWN = 100
EFFECTS = ("allow", "require_approval", "deny")
_WHO = ("network", "agent", "agent_type", "caller")


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
        "rules": [rule | {"who": _who(rule), "limits": _limits(rule)} for rule in shown],
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


def _who(rule: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), rule[name]) for name in _WHO if rule[name] != "*"]


def _limits(rule: Mapping[str, Any]) -> list[str]:
    """Say what bounds a rule beside its condition."""
    return [*_bounds(rule), *_asks(rule)]


def _bounds(rule: Mapping[str, Any]) -> Iterable[str]:
    if rule["max_calls_per_run"] is not None:
        yield f"at most {rule['max_calls_per_run']} calls in a run"
    if rule["rate_calls"] is not None:
        yield f"at most {rule['rate_calls']} calls in {rule['rate_per_s']} s"
    if rule["max_cost_per_run_usd"] is not None:
        yield f"until the run has cost ${rule['max_cost_per_run_usd']}"
    if rule["discovered"]:
        yield "also for tools that a server offers by itself"


def _asks(rule: Mapping[str, Any]) -> Iterable[str]:
    if rule["effect"] == "require_approval":
        people = "one person" if rule["quorum"] == 1 else f"{rule['quorum']} people"
        yield f"asks {people}; after {rule['expires_s'] / 3600:g} h without an answer: {rule['on_expiry']}"
