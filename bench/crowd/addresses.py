"""The addresses of all pages of the console, also with filters that match much, little and nothing."""

from collections.abc import Mapping

from towpath_console.pages import PAGES

QUERIES: Mapping[str, tuple[str, ...]] = {
    "/runs": (
        "?status=waiting",
        "?status=failed",
        "?status=completed&network=support",
        "?network=nobody",
        "?label=no%3Dnone",
        "?before={early_run_id}",
    ),
    "/runs/cancel": ("?status=waiting",),
    "/runs/{run_id}/events": ("?after=1500", "?type=agent_answered"),
    "/approvals": (
        "?status=approved",
        "?status=denied",
        "?run_id={waiting_run_id}",
        "?tool=orders.refund&rule=refunds-over-100",
    ),
    "/queues": ("?status=discarded", "?stream=TASKS"),
    "/audit": ("?run_id={waiting_run_id}", "?tool=orders.refund", "?actor=nobody", "?phase=policy.applied"),
    "/settings/notices": ("?status=dead",),
}
"""What is asked beside the page itself."""

NEEDED = {
    "/runs/compare": "?a={run_id}&b={waiting_run_id}",
    "/approvals/batch": "?tool=orders.refund&rule=refunds-over-100",
}
"""Without this there is no such page."""


def addresses(known: Mapping[str, str]) -> list[str]:
    """Return every page, with the parts of its path from *known*: of a long run, and once more of a waiting one."""
    found = []
    for route in PAGES:
        path = route.path.replace(":path}", "}")
        asked = (NEEDED.get(path, ""), *QUERIES.get(path, ()))
        found += [(path + query).format_map(known) for query in asked]
        if "{run_id}" in path:
            found.append(path.format_map({**known, "run_id": known["waiting_run_id"], "step": "1"}))
    return found
