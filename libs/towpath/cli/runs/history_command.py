"""`towpath runs history`: what the log-writer recorded of a run: the run, and every step with its outcome.

History may lag behind the run, and says how far it has read; the run's own log is `towpath runs events`.
"""

from typing import TYPE_CHECKING, Any

from towpath.cli.shared import short_ids
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column
from towpath.cli.shared.text import one_line
from towpath_contracts.base import JsonObject
from towpath_contracts.runs.views import ExecutionHistory

if TYPE_CHECKING:
    from towpath.client.client import Client

_RUN = (
    Column("run", "id"),
    Column("status", lambda row: f"{row['status']} {row['final_status'] or ''}".strip()),
    Column("reason", lambda row: row["escalation_reason"] or row["reason"] or ""),
    Column("goal", lambda row: one_line(str(row["state_snapshot"].get("goal", "")), 80)),
    Column("steps", lambda row: "" if row["total_steps"] is None else row["total_steps"]),
    Column("tokens", lambda row: "" if row["total_tokens"] is None else row["total_tokens"]),
    Column("cost", lambda row: "" if row["total_cost_usd"] is None else f"${float(row['total_cost_usd']):.4f}"),
)


def _success_mark(row: Any) -> str:
    return {True: "✓", False: "✕", None: "·"}[row["success"]]


_STEPS = (
    Column("step", "step_number"),
    Column("", _success_mark),
    Column("agent", lambda row: row["agent_id"] or ""),
    Column("attempts", "attempt_number"),
    Column("ms", "duration_ms"),
    Column("tokens", "tokens_used"),
    Column("progress", lambda row: "" if row["progress"] is None else f"{row['progress']:.2f}"),
    Column("reasoning", lambda row: one_line(row["reasoning"] or "", 50)),
    Column("error", lambda row: one_line(row["error"] or ""), is_whole=True),
)


async def history(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show what was recorded of a run: its state at the end, and every step with its outcome.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        whole, steps = await _read(client, str(await short_ids.resolve_run_id(client, run)))
    out = common.out()
    if not out.for_people:
        out.data({"history": whole, "steps": steps})
        return
    if whole is None:
        out.write("Nothing of the run is recorded yet.")
        return
    out.record(whole, _RUN)
    out.write("")
    out.rows("steps", steps, _STEPS, empty="No step is recorded yet.")


async def _read(client: "Client", run_id: str) -> tuple[JsonObject | None, list[JsonObject]]:
    whole: JsonObject | None = None
    steps: list[JsonObject] = []
    after: int | None = -1
    while after is not None:
        answer = await client.request("GET", f"/v1/runs/{run_id}/history", query={"after_step": after})
        page = ExecutionHistory.model_validate(answer)
        whole, after = page.history, page.next_after_step
        steps += page.steps
    return whole, steps
