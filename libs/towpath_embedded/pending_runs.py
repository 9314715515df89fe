"""Counts the runs that a stop leaves unfinished, so that Ctrl-C can say what it did to them.

It asks the gateway like everybody else and never holds up the stop; without an answer nothing is said.
"""

from typing import Any

import httpx2

LIVE = ("queued", "running", "waiting", "cancelling")
PAGE = 200
TIMEOUT_S = 2.0


async def count_unfinished_runs(gateway_url: str) -> dict[str, str]:
    """Return how many runs are in each live status, leaving out empty ones; `200+` stands for more than a page."""
    found: dict[str, str] = {}
    try:
        async with httpx2.AsyncClient(base_url=gateway_url, timeout=TIMEOUT_S) as client:
            for status in LIVE:
                response = await client.get("/v1/runs", params={"status": status, "limit": PAGE})
                page: Any = response.raise_for_status().json()
                if page["runs"]:
                    found[status] = f"{PAGE}+" if page.get("next_before") else str(len(page["runs"]))
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return {}
    return found


def stop_message(counts: dict[str, str], *, ephemeral: bool) -> str:
    """What `towpath up` says when it begins to stop."""
    if not counts:
        return "stopping"
    fate = "thrown away" if ephemeral else "kept; they go on with the next start"
    return f"stopping; unfinished runs are {fate}: {', '.join(f'{n} {status}' for status, n in counts.items())}"
