"""Who works: each worker process, then each toolset: whether its calls are taken, what it offers, how much waits."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.queues import with_state
from towpath_console.pages.shared import chosen, if_allowed, if_answered, together

REFRESH_S = 3.0


async def workers(asked: Asked) -> Page:
    """Make the page: processes, workers by toolset, then the platform's own services."""
    found = await together(
        workers=if_answered(asked.api.get("/v1/workers")),
        queues=asked.api.get("/v1/queues"),
        tools=if_allowed(asked.api.get("/v1/tools")),
    )
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
    processes = found["workers"].get("workers", ())
    instances = [one for one in processes if not wanted or any(wanted in name for name in one["toolsets"])]
    view: dict[str, Any] = {
        "instances": instances,
        "refusal": found["workers"].get("refusal"),
        "unlisted": found["workers"].get("left_out", 0),
        "toolsets": toolsets,
        "services": [queue for queue in queues if not queue["toolset"]],
        "sees_tools": "tools" in found["tools"],
        "held": found["tools"].get("held", {}),
        "left_out": found["queues"].get("left_out", 0),
        "idle": sum(one["state"] == "nobody listens" for one in toolsets),
        "wanted": wanted,
    }
    known = {"workers": found["workers"].get("workers"), "refusal": view["refusal"]}
    data = {name: value for name, value in known.items() if value is not None} | {"queues": found["queues"]}
    return Page("Workers", "workers.html", data, view, REFRESH_S)


def _alone(instances: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return by process the toolsets that nobody else takes calls of."""
    taking: dict[str, int] = defaultdict(int)
    for one in instances:
        for toolset in one["toolsets"]:
            taking[toolset] += one["state"] == "taking"
    return {
        one["worker_id"]: [toolset for toolset in one["toolsets"] if taking[toolset] == 1]
        for one in instances
        if one["state"] == "taking"
    }


async def confirm_drain(asked: Asked) -> Page:
    """Make the page that says what draining a process means; nothing is changed by it."""
    found = await asked.api.get("/v1/workers")
    named = [one for one in found["workers"] if one["worker_id"] == asked.path["worker_id"]]
    view = {"worker": named[0] if named else None, "alone": _alone(found["workers"]).get(asked.path["worker_id"], [])}
    return Page("Drain a worker", "worker_drain.html", {"worker": view["worker"]}, view)


async def drain(asked: Asked, form: Mapping[str, str]) -> Done:
    """Let a process take no new calls."""
    body = {"reason": form["reason"]} if form.get("reason") else None
    done = await asked.api.post(f"/v1/workers/{asked.path['worker_id']}/drain", body)
    name = done["worker"]["name"]
    said = (
        f"{name} is being drained: it hears of it within five seconds."
        if done["changed"]
        else f"{name} was drained already."
    )
    return Done("/workers", said)


PAGES = (
    PageRoute("/workers", workers, "/workers"),
    PageRoute("/workers/{worker_id}/drain", confirm_drain, "/workers"),
)
ACTIONS = (ActionRoute("/workers/{worker_id}/drain", drain, "runs:operate"),)
