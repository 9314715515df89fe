"""`towpath gates bulk`: one verdict for many gates, such as the questions that a restore asks.

Without --yes it only lists them. Each gate gets the verdict by itself, and an approval holds for the call as it was
listed: one that changed meanwhile is refused, as are gates that somebody has settled.
"""

from typing import Any, Literal

from towpath.cli.access import gates_commands
from towpath.cli.access.gate_watch import waiting
from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column
from towpath.client.client import Client
from towpath.errors import RefusedError
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import GateView

BulkVerdict = Literal["approved", "denied", "happened", "did_not_happen", "retry"]

_DONE = (
    Column("gate", "gate_id", is_id=True),
    Column("run", "run_id", is_id=True),
    Column("done", lambda row: row["code"] or row["verdict"]),
    Column("detail", "detail", is_whole=True),
)


async def bulk(
    verdict: BulkVerdict,
    /,
    *,
    tool: str | None = None,
    run: str | None = None,
    reason: str = "",
    yes: bool = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Give all waiting gates that match and take the verdict the same one; without --yes they are only listed.

    Args:
        verdict: approved or denied for calls that wait for a person; happened, did_not_happen or retry for calls of
            which nobody knows whether they happened.
        tool: Only gates of calls of this tool.
        run: Only gates of this run, and of the runs below it where a caller submitted it.
        reason: Why, or how you know; it stands in the audit of each. A denial needs it, and its model sees it.
        yes: Do it; without it they are only listed.
    """
    if yes and verdict == "denied" and not reason:
        raise ProblemError(problem("request_invalid", "a denial needs --reason: the model sees it"))
    out = common.out()
    async with common.connect() as client:
        root = None if run is None else await short_ids.resolve_run_id(client, run)
        found = (await waiting(client.gates, root_run_id=root)).values()
        gates = [gate for gate in found if _takes(gate, verdict, tool)]
        if not yes or not gates:
            rows = [gate.model_dump(mode="json") for gate in gates]
            out.rows("gates", rows, gates_commands.LISTED, empty="No gate that waits matches.")
            if gates and out.for_people:
                out.write(f"Nothing was decided; give all {len(gates)} the verdict {verdict} with: --yes")
            return OK
        results: list[dict[str, Any]] = []
        with out.progress(f"Deciding each gate: {verdict}") as shown:
            for gate in gates:
                results.append(await _decide(client, gate, verdict, reason))
                shown.count(len(results), "gates", of=len(gates))
    out.rows("gates", results, _DONE, empty="")
    return RUN_FAILED if any(one["code"] for one in results) else OK


def _takes(gate: GateView, verdict: str, tool: str | None) -> bool:
    return verdict in gates_commands.verdicts(gate.model_dump(mode="json")) and tool in (None, gate.detail.get("tool"))


async def _decide(client: Client, gate: GateView, verdict: str, reason: str) -> dict[str, Any]:
    """Settle one gate; one that is refused ends nothing, as the others wait too."""
    row = {"gate_id": str(gate.gate_id), "run_id": str(gate.run_id), "verdict": verdict, "code": ""}
    digest = gate.detail.get("digest")
    try:
        if verdict == "approved":
            done = await client.gates.approve(gate.gate_id, reason=reason, digest=digest)
        elif verdict == "denied":
            done = await client.gates.deny(gate.gate_id, reason, digest=digest)
        else:
            done = await client.gates.resolve(gate.gate_id, verdict, reason=reason)
    except RefusedError as error:
        return {**row, "code": error.problem.code, "detail": error.problem.detail}
    return {**row, "detail": done.detail}
