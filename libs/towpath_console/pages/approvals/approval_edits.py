"""Other arguments for a call that waits: a form with one field each, and what is wrong beside it."""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.argument_form import ArgumentField, fields_of, read_form, with_faults
from towpath_console.gate_card import gate_card
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.approvals.inbox import STALE, refused_at_gate
from towpath_console.pages.shared import if_allowed

INVALID = 422


async def edit(asked: Asked) -> Page:
    """Make the form with the arguments as they are."""
    gate, spec, fields = await _call(asked)
    return _page(gate, spec, fields)


async def change(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Send the arguments of the form; where something is wrong with them, the form is shown again and says what."""
    gate, spec, fields = await _call(asked)
    reason = form.get("reason", "")
    args, fields = read_form(form, fields)
    if any(field.fault for field in fields):
        if lacks := asked.caller.lacking_at(gate):
            return await refused_at_gate(asked, ApiRefusalError.of("role_missing", lacks), reason)
        return _page(gate, spec, fields, status=INVALID, reason=reason, others=["Nothing was sent yet."])
    body = {"args": args, "reason": reason} | ({"digest": form["digest"]} if form.get("digest") else {})
    try:
        await asked.api.post(f"/v1/gates/{gate['gate_id']}/edit", body)
    except ApiRefusalError as error:
        if error.problem.get("code") in STALE:
            return await refused_at_gate(asked, error, reason)
        placed, others = with_faults(fields, error.problem.get("errors") or ())
        if not any(field.fault for field in placed):
            others = [str(error.problem.get("detail") or error.problem.get("title") or "Refused"), *others]
        return _page(gate, spec, placed, status=error.status, reason=reason, others=others)
    more = gate.get("quorum", 1) > 1
    said = "Changed. Others have to approve the changed call." if more else "Changed and approved."
    return Done("/approvals", said)


async def _call(asked: Asked) -> tuple[dict[str, Any], Mapping[str, Any] | None, list[ArgumentField]]:
    gate = await asked.api.get(f"/v1/gates/{asked.path['gate_id']}")
    detail = gate["detail"]
    described = (await if_allowed(asked.api.get("/v1/tools", name=str(detail.get("tool") or "-")))).get("tools") or ()
    spec = described[0] if described else None
    schema = (spec or {}).get("parameters") or {}
    return gate, spec, fields_of(detail.get("args") or {}, schema, (spec or {}).get("system_params") or ())


def _page(
    gate: Mapping[str, Any],
    spec: Mapping[str, Any] | None,
    fields: list[ArgumentField],
    *,
    status: int = 200,
    reason: str = "",
    others: list[str] | None = None,
) -> Page:
    card = gate_card(gate, full=True)
    rows = {row.name: row for row in card.arguments}
    view = {"gate": gate, "card": card, "tool": spec, "fields": fields, "rows": rows, "reason": reason}
    title = f"Change the call of {card.title}"
    return Page(title, "approval_edit.html", gate, view | {"others": others or []}, None, status)


PAGES = (PageRoute("/approvals/{gate_id}/edit", edit, "/approvals"),)
ACTIONS = (ActionRoute("/approvals/{gate_id}/edit", change, "gates:resolve", "/approvals"),)
