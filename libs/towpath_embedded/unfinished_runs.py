"""What `towpath up` says of unfinished runs when it stops."""

from typing import Any

from towpath_embedded.local_access import NO_AUTHORITIES

UNFINISHED = ("queued", "running", "waiting", "cancelling")
PAGE = 200
GATEWAY_TIMEOUT_S = 2.0  # the count of unfinished runs never holds up a stop for longer


async def count_unfinished_runs(gateway_url: str) -> dict[str, str]:
    """Return how many runs are in each unfinished status; `200+` stands for more than a page.

    Empty statuses are left out; the result is empty where the gateway does not answer.
    """
    import httpx2  # an HTTP client: not on the way to readiness

    found: dict[str, str] = {}
    try:
        async with httpx2.AsyncClient(
            base_url=gateway_url, verify=NO_AUTHORITIES, timeout=GATEWAY_TIMEOUT_S, trust_env=False
        ) as client:
            for status in UNFINISHED:
                response = await client.get("/v1/runs", params={"status": status, "limit": PAGE})
                page: Any = response.raise_for_status().json()
                if page["runs"]:
                    found[status] = f"{PAGE}+" if page.get("next_before") else str(len(page["runs"]))
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return {}
    return found


def stop_message(counts: dict[str, str], *, ephemeral: bool) -> str:
    """Return what `towpath up` shows when it begins to stop."""
    if not counts:
        return "stopping"
    fate = "thrown away" if ephemeral else "kept; they go on with the next start"
    return f"stopping; unfinished runs are {fate}: {', '.join(f'{n} {status}' for status, n in counts.items())}"
