"""The versions of the policy: who applied each, when and why, what it changed, and the way back to one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Done, Page
from towpath_console.pages.policy.rule_words import rule_sentences
from towpath_console.pages.shared import together

SHOWN = 50

MOST_OPEN = 12
"""Changes of one version that are shown at once; more are folded, a group for each agent."""

FIRST = ("effect", "tool", "network", "agent", "when")
"""Of a whole rule, in the order in which it is read."""

DEFAULTS = {("quorum", 1), ("on_expiry", "deny"), ("expires_s", 86400)}
"""What a rule has where it says nothing of it."""


async def versions(asked: Asked) -> Page:
    """Make the list, newest first."""
    before = asked.query.get("before")
    found = await asked.api.get("/v1/policy/versions", limit=SHOWN, before=before or None)
    return Page("Versions of the policy", "policy/versions.html", found, {**found, "tab": "versions"})


async def version(asked: Asked) -> Page:
    """Make the page of one version: what it changed against the one before, and its text."""
    number = _number(asked)
    found = await together(
        policy=asked.api.get("/v1/policy", version=number),
        log=asked.api.get("/v1/policy/changes", before=number + 1, limit=1),
        newest=asked.api.get("/v1/policy/versions", limit=1),
    )
    entries = [entry for entry in found["log"]["changes"] if entry["version"] == number]
    entry: dict[str, Any] = entries[0] if entries else {"changes": [], "more": 0}
    changes = [_change(change) for change in entry["changes"]]
    changed = {change["name"] for change in changes}
    rest = [rule for rule in found["policy"]["rules"] if rule["name"] not in changed] if not entry["more"] else []
    view = {
        "policy": found["policy"],
        "source": entry.get("source", ""),
        "groups": _grouped(changes),
        "open": len(changes) <= MOST_OPEN,
        "tally": Counter(change["change"] for change in changes),
        "unchanged": [{"name": rule["name"], "effect": rule["effect"], "words": rule_sentences(rule)} for rule in rest],
        "more": entry["more"],
        "current": found["newest"]["current"],
        "tab": "versions",
    }
    data = {"policy": found["policy"], "change": entry, "current": found["newest"]["current"]}
    return Page(f"Version {number} of the policy", "policy/version.html", data, view)


async def roll_back(asked: Asked, form: Mapping[str, str]) -> Done:
    """Make an older version the newest again, if the one that was looked at is still in force."""
    number, note = _number(asked), form.get("note", "").strip()
    if not note:
        problem = {"code": "request_invalid", "title": "A reason is missing", "detail": "nothing was changed"}
        raise ApiRefusalError(422, problem | {"remedy": "Go back and say why: it stands in the audit."})
    body: dict[str, Any] = {"version": number, "note": note}
    if form.get("if_version", "").isdecimal():
        body["if_version"] = int(form["if_version"])
    applied = await asked.api.post("/v1/policy/rollback", body)
    said = f"Version {number} is in force again, as version {applied['version']}."
    return Done("/policy/versions", said if applied["changed"] else f"Version {number} was in force already.")


def _number(asked: Asked) -> int:
    number = asked.path["version"]
    if not number.isdecimal() or len(number) > 9 or int(number) < 1:
        problem = {"code": "version_not_found", "title": "There is no such version", "detail": number}
        raise ApiRefusalError(404, problem)
    return int(number)


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of one rule with the members that it is about."""
    before, after = change["before"] or {}, change["after"] or {}
    rest = sorted((before | after).keys() - {"name", "digest", *FIRST})
    names = change["fields"] or (*FIRST, *rest)
    shown = [
        {"name": name, "before": before.get(name), "after": after.get(name)}
        for name in names
        if name != "digest" and _tells(change["change"], name, before.get(name), after.get(name))
    ]
    rule = after or before
    return {
        "name": change["name"],
        "change": change["change"],
        "fields": shown,
        "effect": rule.get("effect"),
        "note": rule.get("note"),
        "words": rule_sentences(rule),
        "whom": _whom(rule),
    }


def _whom(rule: Mapping[str, Any]) -> str:
    """Return of whom a rule speaks, as the title of a group."""
    network, agent = rule.get("network", "*"), rule.get("agent", "*")
    if agent != "*":
        return agent if network == "*" else f"{network} · {agent}"
    return "Every network" if network == "*" else f"{network} · every agent"


def _grouped(changes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes by whom they are about, in the order of their first ones, and how many have which effect."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for change in changes:
        groups.setdefault(change["whom"], []).append(change)
    return [
        {"whom": whom, "changes": found, "effects": Counter(one["effect"] for one in found)}
        for whom, found in groups.items()
    ]


def _tells(change: str, name: str, before: Any, after: Any) -> bool:
    """Return whether a member says something: of a whole rule those that are left as they are by default do not."""
    if change == "altered":
        return True
    value = after if change == "added" else before
    return value not in (None, "", "*", False) and (name, value) not in DEFAULTS
