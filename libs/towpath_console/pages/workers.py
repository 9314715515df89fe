"""Who works: for each toolset whether a worker takes its calls, what it offers, and how much waits and is in flight."""

from collections import defaultdict
from typing import Any

from towpath_console.page import Asked, Page, PageRoute
from towpath_console.pages.queues import with_state
from towpath_console.pages.shared import chosen, if_allowed, together

REFRESH_S = 3.0


async def workers(asked: Asked) -> Page:
    """Make the page: workers by toolset, then the platform's own services."""
    found = await together(queues=asked.api.get("/v1/queues"), tools=if_allowed(asked.api.get("/v1/tools")))
    queues = with_state(found["queues"]["queues"])
    offered = defaultdict(list)
    for tool in found["tools"].get("tools", ()):
        offered[tool["toolset"]].append(tool)
    wanted = chosen(asked.query, "toolset").get("toolset")
    toolsets = [
        {**queue, "tools": sorted(offered[queue["toolset"]], key=lambda tool: str(tool["name"]))}
        for queue in queues
        if queue["toolset"] and (not wanted or wanted in queue["toolset"])
    ]
    view: dict[str, Any] = {
        "toolsets": toolsets,
        "services": [queue for queue in queues if not queue["toolset"]],
        "sees_tools": "tools" in found["tools"],
        "held": found["tools"].get("held", {}),
        "left_out": found["queues"].get("left_out", 0),
        "idle": sum(one["state"] == "nobody listens" for one in toolsets),
        "wanted": wanted,
    }
    return Page("Workers", "workers.html", {"queues": found["queues"]}, view, REFRESH_S)


PAGES = (PageRoute("/workers", workers, "/workers"),)
