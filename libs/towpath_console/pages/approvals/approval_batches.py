"""Several calls that wait by the same rule, decided together: listed first, chosen one by one, each with its digest."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from towpath_console.api import ApiRefusalError
from towpath_console.gate_card import CELL_CHARS, LIST_CHARS, ArgumentRow, GateCard, gate_card, written
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.approvals.inbox import DIRECT, LIMIT, NOT_FOUND, say
from towpath_console.text import one_line

CHOSEN, DIGEST = "gate-", "digest-"
INVALID = 422
MOST_COLUMNS = 6
"""Arguments that have a column each; of calls with more, all stand in one."""


class BatchRow(NamedTuple):
    """One call of a batch; chosen at first only where somebody vouches for every value, and all of it is shown."""

    gate: Mapping[str, Any]
    card: GateCard
    cells: Mapping[str, ArgumentRow]
    doubtful: tuple[str, ...]
    in_short: bool
    is_chosen: bool


async def batch(asked: Asked) -> Page:
    """Make the page that lists what would be decided."""
    return await _page(asked, asked.query.get("tool", ""), asked.query.get("rule", ""))


async def decide_together(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Say the same word at each chosen gate, one after the other; what was refused is said."""
    verdict, tool, rule = asked.path["verdict"], form.get("tool", ""), form.get("rule", "")
    if verdict not in DIRECT:
        raise ApiRefusalError(NOT_FOUND, {"code": "not_found", "title": "There is no such verdict", "detail": verdict})
    reason = form.get("reason", "")
    ids = [name.removeprefix(CHOSEN) for name in form if name.startswith(CHOSEN)]
    if len(ids) > LIMIT:
        return await _page(asked, tool, rule, reason=reason, problem=f"Choose {LIMIT} at most: nothing was decided.")
    if not ids:
        return await _page(asked, tool, rule, reason=reason, problem="Nothing is chosen.")
    if verdict == "deny" and not reason.strip():
        return await _page(
            asked, tool, rule, reason=reason, problem="To deny needs a reason: the agents read it.", ids=ids
        )
    refusals: list[tuple[str, Mapping[str, Any]]] = []
    for gate_id in ids:
        try:
            await say(asked, gate_id, verdict, reason, form.get(DIGEST + gate_id, ""))
        except ApiRefusalError as error:
            refusals.append((gate_id, error.problem))
    done = f"{len(ids) - len(refusals)} {DIRECT[verdict].lower()}"
    if not refusals:
        return Done("/approvals", done)
    return await _page(asked, tool, rule, refusals=refusals, problem=f"{done} The others stand below.", reason=reason)


async def _page(
    asked: Asked,
    tool: str,
    rule: str,
    *,
    reason: str = "",
    problem: str = "",
    ids: list[str] | None = None,
    refusals: list[tuple[str, Mapping[str, Any]]] | None = None,
) -> Page:
    found = await asked.api.get("/v1/gates", status="pending", tool=tool, rule=rule, paused="false", limit=LIMIT)
    gates = [gate for gate in found["gates"] if gate.get("approval_id")]
    lacks = [asked.caller.lacking_at(gate) for gate in gates]
    if problem and not refusals and lacks and all(lacks):
        raise ApiRefusalError.of("role_missing", lacks[0])
    cards = [gate_card(gate, full=True) for gate in gates]
    names = list(dict.fromkeys(row.name for card in cards for row in card.arguments))
    names = names if len(names) <= MOST_COLUMNS else []
    wish = asked.query.get("choose", "")
    rows = [_row(gate, card, ids, wish, in_cells=bool(names)) for gate, card in zip(gates, cards, strict=True)]
    view = {
        "rows": rows,
        "names": names,
        "tool": tool,
        "rule": rule,
        "reason": reason,
        "problem": problem,
        "refusals": refusals or [],
        "has_more": bool(found.get("next_after")),
    }
    return Page(
        f"Decide {len(gates)} calls together", "approval_batch.html", found, view, None, INVALID if problem else 200
    )


def _row(gate: Mapping[str, Any], card: GateCard, ids: list[str] | None, wish: str, *, in_cells: bool) -> BatchRow:
    doubtful = tuple(f"{row.name}: {row.origin}" for row in card.arguments if row.is_doubtful)
    if in_cells:
        in_short = not all(row.is_whole(CELL_CHARS) for row in card.arguments)
    else:
        text = written(gate["detail"].get("args"))
        in_short = one_line(text, LIST_CHARS) != text
    wished = {"all": True, "none": False}.get(wish, not doubtful and not in_short)
    cells = {row.name: row for row in card.arguments}
    return BatchRow(gate, card, cells, doubtful, in_short, wished if ids is None else gate["gate_id"] in ids)


PAGES = (PageRoute("/approvals/batch", batch, "/approvals"),)
ACTIONS = (ActionRoute("/approvals/batch/{verdict}", decide_together, "gates:resolve", "/approvals"),)
