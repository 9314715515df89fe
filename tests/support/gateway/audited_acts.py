"""What one person does over HTTP to a run, a network and a limit, and what the audit then has to say of it."""

from typing import Any

import httpx2

from towpath_contracts.base import JsonObject

REASON = "the month is tight"


async def act(
    client: httpx2.AsyncClient, waiting: JsonObject, forked: JsonObject, name: str
) -> list[tuple[str, str, str | None]]:
    """Cancel a run of a task, fork one of another, limit and free a caller, and publish a network, in this order.

    Returns the phase, the reason and the run that each entry has to have.
    """
    fork_of = (await client.post("/run", json=forked)).json()["run_id"]
    run_id = (await client.post("/v1/runs", json=waiting)).json()["run_id"]
    assert (await client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "a mistake"})).status_code == 202
    wanted = {"from_step": 2, "note": "Be brief."}
    fork = (await client.post(f"/v1/runs/{fork_of}/fork", json=wanted)).json()["run_id"]
    for budget in ({"tool_calls": 100}, None):
        limit = {"kind": "caller", "name": name, "reason": REASON, "budget": budget}
        assert (await client.post("/v1/budgets", json=limit)).status_code == 200
    spec = (await client.get("/v1/networks/support")).json()["spec"]
    made = [(await client.post("/v1/networks", json={"spec": {**spec, "name": name}})).json() for _ in range(2)]
    assert (made[0]["version"], made[1]["unchanged"]) == (1, True), "what is published already is not published again"
    acts = [("run.cancel_requested", "a mistake", run_id), ("run.forked", "Be brief.", fork)]
    return [*acts, *((f"budget.{word}", REASON, None) for word in ("set", "lifted")), ("network.published", "", None)]


async def entries_of(client: httpx2.AsyncClient, actor: str) -> list[dict[str, Any]]:
    """Return the entries of *actor*, oldest first."""
    page = (await client.get(f"/v1/audit?actor={actor}")).json()
    return list(reversed(page["entries"]))
