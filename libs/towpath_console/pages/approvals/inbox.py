"""What waits for a person: each call with its exact arguments, where each value came from, the rule, the deadline."""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from towpath_console.api import ApiRefusalError
from towpath_console.gate_card import GateCard, dangers_of, gate_card
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import chosen, if_allowed, together
from towpath_contracts.text import join_sentences

REFRESH_S = 2.0
LIMIT = 50
SHOWN = 30
"""Gates on one page of the inbox: each shows what a person decides about, which is some kilobytes."""

ALIKE = 5
"""Past decisions of the same tool and rule that are shown."""

FILTERS = ("status", "rule", "tool", "network", "run_id", "assigned_to")
STATUSES = {
    "pending": "waits for a person",
    "held": "waits, with pauses and switches",
    "all": "closed",
    "approved": "approved",
    "denied": "denied",
    "expired": "expired",
    "settled": "settled",
    "void": "replaced or over",
}
"""What may be shown, and how it is called."""

DIRECT = {"approve": "Approved.", "deny": "Denied."}
RESOLVED = {
    "happened": "The call happened, you said.",
    "did_not_happen": "The call did not happen, you said.",
    "retry": "The call runs again.",
    "stop": "The run ends.",
}
UNKNOWN = "delegate_unknown"

HANDED = frozenset(
    {"delegate_may_not_decide", UNKNOWN, "role_missing", "gate_settled", "verdict_invalid", "request_invalid"}
)
"""Refusals to hand a gate over, which are said at the gate."""

STALE = frozenset({"gate_settled", "digest_changed"})
MENDED_HERE = frozenset({"reason_required", "retry_refused", "role_missing", "requester_may_not_approve"})
"""Refusals that are said at the gate itself, beside what was written."""

NOT_FOUND = 404

MOST_TOLD = 200
"""Characters of what was decided that are said again."""


async def approvals(asked: Asked) -> Page:
    """Make the inbox, or the list of closed gates."""
    wanted = {name: asked.query.get(name, "").strip() for name in FILTERS}
    status = wanted["status"] if wanted["status"] in STATUSES else "pending"
    narrowed = {name: value for name, value in wanted.items() if value and name != "status"}
    sent: dict[str, str | int | None] = {"limit": SHOWN, **chosen(asked.query, "after"), **narrowed}
    is_open = status in ("pending", "held")
    if is_open:
        run_id = asked.query.get("root_run_id") or sent.pop("run_id", None)
        sent |= {"status": "pending", "root_run_id": run_id or None, "paused": "true" if status == "held" else "false"}
    else:
        sent.pop("assigned_to", None)
        sent |= {"status": status, "order": "newest"}
    found = await asked.api.get("/v1/gates", **sent)
    gates = found["gates"]
    view = {
        "gates": gates,
        "next_after": found.get("next_after"),
        "shown": status,
        "is_open": is_open,
        "statuses": STATUSES,
        "filters": narrowed,
        "known": {name: sorted({_word(gate, name) for gate in gates} - {""}) for name in ("rule", "tool", "network")},
        "batches": batches(gates) if is_open else (),
    }
    return Page("Approvals", "approvals.html", found, view, REFRESH_S if is_open else None)


async def approval(asked: Asked) -> Page:
    """Make the page of one gate; one that was closed says how, and leads to the gate that stands in its place."""
    gate = await asked.api.get(f"/v1/gates/{asked.path['gate_id']}")
    if gate["status"] == "void":
        return await gate_page(asked, gate, next=await _successor(asked, gate))
    return await gate_page(asked, gate)


async def gate_page(asked: Asked, gate: Mapping[str, Any], *, status: int = 200, **said: Any) -> Page:
    """Make the page of *gate* with its rule, its tool and how it was decided before.

    *said* is what an action has to say there: `problem` and the `reason` that was written, or why it is `stale`; and
    `next`, the gate that stands in its place.
    """
    api, detail = asked.api, gate["detail"]
    tool, rule = str(detail.get("tool") or ""), str(detail.get("rule") or "")
    is_call = gate["gate_type"] != "unknown_effect" and bool(gate.get("approval_id"))
    wanted: dict[str, Any] = {}
    if rule:
        wanted["rule"] = if_there(if_allowed(api.get(f"/v1/policy/rules/{quote(rule, safe='')}")))
    if tool:
        wanted["tools"] = if_allowed(api.get("/v1/tools", name=tool))
    if tool and rule and is_call:
        alike = api.get("/v1/gates", status="all", order="newest", tool=tool, rule=rule, limit=ALIKE + 1)
        wanted["alike"] = if_allowed(alike)
    found = await together(**wanted) if wanted else {}
    described = found.get("tools", {}).get("tools") or ()
    spec = described[0] if described else None
    past = [one for one in found.get("alike", {}).get("gates", ()) if one["gate_id"] != gate["gate_id"]][:ALIKE]
    card: GateCard = gate_card(gate, full=True)
    view = {"gate": gate, "card": card, "rule": found.get("rule"), "tool": spec, "past": past, "said": said}
    view["dangers"] = dangers_of(spec)
    title = card.title if card.kind != "call" else f"May {detail.get('agent') or 'the agent'} call {tool}?"
    looks_on = gate["status"] == "pending" and not said
    return Page(title, "approval.html", gate, view, REFRESH_S if looks_on else None, status)


async def decide(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Say one word at a gate; the digest of what was looked at goes along, so that nothing else is decided."""
    gate_id, verdict = asked.path["gate_id"], asked.path["verdict"]
    if verdict not in DIRECT and verdict not in RESOLVED:
        raise ApiRefusalError(NOT_FOUND, {"code": "not_found", "title": "There is no such verdict", "detail": verdict})
    try:
        await say(asked, gate_id, verdict, form.get("reason", ""), form.get("digest", ""))
    except ApiRefusalError as error:
        return await refused_at_gate(asked, error, form.get("reason", ""), _back(form))
    what = form.get("what", "")[:MOST_TOLD]
    return Done(_back(form), (DIRECT | RESOLVED)[verdict] + (f" That was {what}." if what else ""))


def _back(form: Mapping[str, str]) -> str:
    """Return the page on which somebody decided, which they see again."""
    back = form.get("back", "")
    return back if back.startswith("/") and not back.startswith("//") else "/approvals"


async def delegate(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Hand a gate to a person, or to everybody with a role."""
    gate_id, to = asked.path["gate_id"], form.get("to", "").strip()
    confirmed = {"unknown": True} if form.get("unknown") == to else {}
    body = {"to": to, "reason": form.get("reason", ""), **confirmed}
    try:
        await asked.api.post(f"/v1/gates/{gate_id}/delegate", body)
    except ApiRefusalError as error:
        if error.problem.get("code") not in HANDED:
            raise
        gate = await asked.api.get(f"/v1/gates/{gate_id}")
        words = str(error.problem.get("detail") or error.problem.get("title"))
        unknown = to if error.problem.get("code") == UNKNOWN else ""
        written = {"to": to, "why": form.get("reason", ""), "unknown": unknown}
        return await gate_page(asked, gate, status=error.status, handing=words, **written)
    return Done(f"/approvals/{gate_id}", f"Handed to {to}.")


async def say(asked: Asked, gate_id: str, verdict: str, reason: str, digest: str) -> None:
    """Send one word to a gate; raises ApiRefusalError where it is not taken."""
    body: dict[str, Any] = {"reason": reason} | ({"digest": digest} if digest else {})
    if verdict in DIRECT:
        await asked.api.post(f"/v1/gates/{gate_id}/{verdict}", body)
    else:
        await asked.api.post(f"/v1/gates/{gate_id}/resolve", body | {"verdict": verdict})


async def refused_at_gate(asked: Asked, error: ApiRefusalError, reason: str, back: str = "/approvals") -> Page:
    """Return the gate as it is now with why nothing was decided; raises *error* where that is not told there."""
    code = error.problem.get("code")
    if code not in STALE | MENDED_HERE:
        raise error
    gate = await asked.api.get(f"/v1/gates/{asked.path['gate_id']}")
    if code in MENDED_HERE and gate["status"] == "pending":
        told = [str(error.problem.get(name) or "") for name in ("detail", "remedy")]
        words = join_sentences(*(f"{one[:1].upper()}{one[1:]}" for one in told))
        return await gate_page(asked, gate, status=error.status, problem=words, reason=reason, back=back)
    successor = await _successor(asked, gate)
    return await gate_page(asked, gate, status=error.status, stale=error.problem, next=successor, reason=reason)


async def _successor(asked: Asked, gate: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the last gate at which the same call waits, or was decided, as it is now."""
    if not gate.get("execution_id"):
        return None
    sent = {"status": "all", "run_id": gate["run_id"], "after": gate["gate_id"], "limit": LIMIT}
    later = [one for one in (await asked.api.get("/v1/gates", **sent))["gates"] if _is_same_call(one, gate)]
    return later[-1] if later else None


def batches(gates: list[Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """Return tool, rule and number of calls where several of the same rule wait on this page."""
    alike = Counter(
        (_word(gate, "tool"), _word(gate, "rule"))
        for gate in gates
        if gate["status"] == "pending" and gate.get("approval_id") and _word(gate, "rule")
    )
    return [(tool, rule, number) for (tool, rule), number in alike.most_common() if number > 1]


async def if_there(asked: Any) -> dict[str, Any]:
    """Return what is asked for, or nothing where there is no such thing (any more)."""
    try:
        found: dict[str, Any] = await asked
    except ApiRefusalError as error:
        if error.status != NOT_FOUND:
            raise
        return {}
    return found


def _word(gate: Mapping[str, Any], name: str) -> str:
    return str(gate.get(name) or gate["detail"].get(name) or "")


def _is_same_call(one: Mapping[str, Any], gate: Mapping[str, Any]) -> bool:
    return bool(gate.get("execution_id")) and one.get("execution_id") == gate["execution_id"] != one["gate_id"]


PAGES = (
    PageRoute("/approvals", approvals, "/approvals"),
    PageRoute("/approvals/{gate_id}", approval, "/approvals"),
)
ACTIONS = (
    ActionRoute("/approvals/{gate_id}/delegate", delegate, "gates:resolve", "/approvals"),
    ActionRoute("/approvals/{gate_id}/{verdict}", decide, "gates:resolve", "/approvals"),
)
