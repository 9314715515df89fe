"""What waits for a person: each call with its exact arguments, where each value came from, the rule, the deadline."""

from collections.abc import Mapping

from towpath_console.api import ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import chosen

REFRESH_S = 2.0
LIMIT = 50
VERDICTS = {"approve": "Approved.", "deny": "Denied."}


async def approvals(asked: Asked) -> Page:
    """Make the inbox."""
    wanted = {"status": "pending", "limit": LIMIT, **chosen(asked.query, "status", "run_id", "root_run_id", "after")}
    found = await asked.api.get("/v1/gates", **wanted)
    view = {"gates": found["gates"], "next_after": found.get("next_after"), "shown": wanted["status"]}
    return Page("Approvals", "approvals.html", found, view, REFRESH_S)


async def approval(asked: Asked) -> Page:
    """Make the page of one gate."""
    gate = await asked.api.get(f"/v1/gates/{asked.path['gate_id']}")
    refresh = REFRESH_S if gate["status"] == "pending" else None
    return Page("Approval", "approval.html", gate, {"gate": gate}, refresh)


async def decide(asked: Asked, form: Mapping[str, str]) -> Done:
    """Approve or deny, with a reason; the digest of what was looked at goes along, so that nothing else is decided."""
    gate_id, verdict = asked.path["gate_id"], asked.path["verdict"]
    if verdict not in VERDICTS:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such verdict", "detail": verdict})
    body = {"reason": form.get("reason", "")} | ({"digest": form["digest"]} if form.get("digest") else {})
    await asked.api.post(f"/v1/gates/{gate_id}/{verdict}", body)
    back = form.get("back", "")
    return Done(back if back.startswith("/") and not back.startswith("//") else "/approvals", VERDICTS[verdict])


PAGES = (
    PageRoute("/approvals", approvals, "/approvals"),
    PageRoute("/approvals/{gate_id}", approval, "/approvals"),
)
ACTIONS = (ActionRoute("/approvals/{gate_id}/{verdict}", decide),)
