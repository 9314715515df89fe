"""Why a call was decided as it was: the decision as recorded, the rule as it stood then, and what it was asked about.

The record is what counts. How each rule is weighed is asked of the policy in force, and the page says whether that is
the version that decided. A person may have changed the arguments since: history has those that ran, so the ones that
were decided about are told by the digest that the record has.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Page
from towpath_console.pages.names import is_uuid
from towpath_console.pages.policy.rule_words import rule_sentences, rule_yaml
from towpath_console.pages.runs.history import proposed_calls, read_steps
from towpath_console.pages.runs.run_step import as_the_rules_stand
from towpath_console.pages.shared import together
from towpath_contracts.canonical import digest

MOST_STEPS = 500
"""Of a run, in which the call is looked for."""

GONE = frozenset({403, 404, 410})
"""Refusals of a part of the page: the rest is shown, with the reason."""


async def decision(asked: Asked) -> Page:
    """Make the form and, where the query names a call or an entry, the explanation of its first decision."""
    written = asked.query.get("id", "").strip().lower()
    if not written:
        return _page({"decided": None})
    decided = await _decided(asked, written)
    if decided is None:
        return _page({"decided": None, "missing": written})
    found = await together(
        then=_or_reason(asked.api.get("/v1/policy", version=decided["policy_version"] or None)),
        call=_or_reason(_call(asked, decided)),
    )
    rules = {rule["name"]: rule for rule in found["then"].get("rules", ())}
    rule = rules.get(decided["rule"] or "")
    call = found["call"].get("call")
    about = found["call"].get("about")
    now, changed = {}, []
    if call is not None and about is not None:
        now = await as_the_rules_stand(asked.api, found["call"]["run"], call | {"args": about})
        changed = _changed_members(about, call["args"])
    view = {
        "decided": decided,
        "rule": rule,
        "sentences": rule_sentences(rule) if rule else [],
        "rule_yaml": rule_yaml(rule) if rule else "",
        "rule_refusal": found["then"].get("refusal"),
        "call": call,
        "about": about,
        "changed": changed,
        "call_refusal": found["call"].get("refusal"),
        "now": now,
        "same_version": now.get("policy_version") == decided["policy_version"],
    }
    return _page(view)


async def _decided(asked: Asked, written: str) -> dict[str, Any] | None:
    """Return the recorded decision: of an entry by its number, of a call by its id the first one."""
    if is_uuid(written):
        run = asked.query.get("run", "")
        named = {"run_id": run} if is_uuid(run) else {}
        found = await asked.api.get("/v1/audit", execution_id=written, phase="decision", limit=100, **named)
        entries = found["entries"]
    elif written.isascii() and written.isdecimal() and len(written) < 19:
        found = await asked.api.get("/v1/audit", before=int(written) + 1, limit=1)
        entries = [one for one in found["entries"] if str(one["entry_id"]) == written and one["phase"] == "decision"]
    else:
        detail = "it is no number of an entry of the audit, and no whole id of a call"
        raise ApiRefusalError(422, {"code": "request_invalid", "title": "This names no decision", "detail": detail})
    return entries[-1] if entries else None


async def _call(asked: Asked, decided: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run and, in its history, the call that was decided about."""
    run_id = decided["run_id"]
    if not run_id:
        return {}
    run, part = await asyncio.gather(asked.api.get(f"/v1/runs/{run_id}"), read_steps(asked.api, run_id, 0, MOST_STEPS))
    calls = [one for one in part.calls if str(one["execution_id"]) == decided["execution_id"]]
    if not calls:
        return {}
    proposed = [
        args
        for step in part.steps
        if step.get("step_number") == calls[0]["step_number"]
        for tool, args in proposed_calls(step)
        if tool == calls[0]["tool"]
    ]
    about = (args for args in (calls[0]["args"], *proposed) if _fits(args, decided["args_digest"]))
    return {"run": run, "call": calls[0], "about": next(about, None)}


def _fits(args: Any, wanted: str) -> bool:
    """Return whether *args* have the digest *wanted*; where the record has none, nothing tells them apart."""
    try:
        return not wanted or digest(args) == wanted
    except ValueError:  # NaN, which is not JSON
        return False


def _changed_members(before: Any, after: Any) -> list[str]:
    """Return the names of the arguments that differ."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    return [name for name in before | after if not _fits(_member(after, name), digest(_member(before, name)))]


def _member(args: Mapping[str, Any], name: str) -> list[Any]:
    """Return a member so that one which is not there differs from each that is."""
    return [args[name]] if name in args else []


async def _or_reason(asking: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await asking
    except ApiRefusalError as error:
        if error.status not in GONE:
            raise
        return {"refusal": dict(error.problem)}
    return found


def _page(view: Mapping[str, Any]) -> Page:
    usual: dict[str, Any] = {
        "rule": None,
        "call": None,
        "about": None,
        "changed": (),
        "now": {},
        "missing": "",
        "tab": "decision",
    }
    return Page("Explain a decision", "policy/decision.html", dict(view), usual | {"tab": "decision"} | dict(view))
