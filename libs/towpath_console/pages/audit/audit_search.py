"""The entries of the audit, as far as the query asks for them, newest first."""

import re
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Page
from towpath_console.pages.audit.audit_verify import last_verified
from towpath_console.pages.names import is_uuid
from towpath_console.pages.shared import chosen, with_zone

LIMIT = 50
FILTERS = ("run_id", "execution_id", "agent_key", "tool", "verdict", "phase", "actor", "args_digest")
TIMES = ("since", "until")
PHASES = (
    *("decision", "dispatch", "claim", "outcome", "settled", "approval.vote", "approval.approved", "approval.denied"),
    *("approval.consumed", "approval.edited", "approval.expired", "policy.applied", "policy.shadow_set"),
    *("tool.registered", "tool.accepted", "key.created", "key.revoked", "run.paused", "run.forked"),
    *("audit.erase_requested", "audit.erase_confirmed", "audit.erased", "audit.dropped"),
)
VERDICTS = (
    *("allow", "require_approval", "deny", "approved", "denied", "granted", "succeeded", "failed", "unknown"),
    "initiated",
)
"""What is offered; anything else may be written."""

LONGEST_NUMBER = 19

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


async def search(asked: Asked) -> Page:
    """Make the list that the query asks for."""
    query = asked.query
    wanted = (
        _named(query.get("find", ""))
        | chosen(query, *FILTERS)
        | {name: with_zone(query[name]) for name in TIMES if query.get(name)}
    )
    page = {"before": query["before"]} if query.get("before") else {}
    found = await asked.api.get("/v1/audit", **({"limit": LIMIT} | wanted | page))
    view = {
        "entries": found["entries"],
        "next_before": found["next_before"],
        "total": found["total"],
        "filters": {name: value for name, value in wanted.items() if value},
        "phases": PHASES,
        "verdicts": VERDICTS,
        "last": last_verified(asked.api),
        "tab": "entries",
    }
    return Page("Audit", "audit/search.html", found, view)


def _named(written: str) -> dict[str, Any]:
    """Return the filters of what somebody pasted: the number of an entry, a run's id, or a digest of arguments."""
    written = written.strip().lower()
    if not written:
        return {}
    if written.isascii() and written.isdecimal() and len(written) < LONGEST_NUMBER:
        return {"before": str(int(written) + 1), "limit": 1}
    if is_uuid(written):
        return {"run_id": written}
    found = _DIGEST.fullmatch(written)
    if found is not None:
        return {"args_digest": f"sha256:{found[1]}"}
    detail = "it is no number of an entry, no whole id of a run and no whole digest (sha256:…)"
    problem = {"code": "request_invalid", "title": "This can't be looked for", "detail": detail}
    raise ApiRefusalError(422, problem | {"remedy": "Paste one of these, or use the filters."})
