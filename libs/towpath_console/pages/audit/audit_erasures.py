"""What was erased, and what waits for a second person."""

from towpath_console.page import Asked, Page
from towpath_console.pages.shared import chosen

LIMIT = 50
STATUSES = ("requested", "confirmed", "done", "withdrawn")


async def erasures(asked: Asked) -> Page:
    """Make the list, newest first."""
    wanted = chosen(asked.query, "status", "before")
    found = await asked.api.get("/v1/erasures", limit=LIMIT, **wanted)
    view = {**found, "statuses": STATUSES, "shown": wanted.get("status"), "tab": "erasures"}
    return Page("Erasures", "audit/erasures.html", found, view)
