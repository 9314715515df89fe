"""The entries of the audit, as far as the query asks for them, newest first."""

from towpath_console.page import Asked, Page
from towpath_console.pages.shared import chosen, with_zone

LIMIT = 50
FILTERS = ("run_id", "execution_id", "agent_key", "tool", "verdict", "phase", "actor")
TIMES = ("since", "until")
PHASES = (
    *("decision", "dispatch", "claim", "outcome", "settled", "approval.vote", "approval.approved", "approval.denied"),
    *("approval.consumed", "approval.edited", "approval.expired", "policy.applied", "policy.shadow_set"),
    *("tool.registered", "tool.accepted", "key.created", "key.revoked", "run.paused", "run.forked"),
    *("audit.erase_requested", "audit.erase_confirmed", "audit.erased", "audit.dropped"),
)
VERDICTS = ("allow", "require_approval", "deny", "approved", "denied", "granted", "succeeded", "failed", "unknown")
"""What is offered; anything else may be written."""


async def search(asked: Asked) -> Page:
    """Make the list that the query asks for."""
    query = asked.query
    wanted = chosen(query, *FILTERS) | {name: with_zone(query[name]) for name in TIMES if query.get(name)}
    found = await asked.api.get("/v1/audit", limit=LIMIT, before=query.get("before") or None, **wanted)
    view = {
        "entries": found["entries"],
        "next_before": found["next_before"],
        "total": found["total"],
        "filters": {name: value for name, value in wanted.items() if value},
        "phases": PHASES,
        "verdicts": VERDICTS,
        "tab": "entries",
    }
    return Page("Audit", "audit/search.html", found, view)
