"""`towpath gates bulk`: one verdict for many gates, such as the questions that a restore asks.

It lists them first, and names the list; the verdict is given to the gates of a list that is named. One that opened
later is not among them, and where one has changed or is settled all are to be listed anew. Each gate gets the verdict
by itself, and an approval holds for the call as it was listed.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from towpath.cli.access import gates_commands
from towpath.cli.access.gate_watch import waiting
from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column, OutputPrinter, print_notice
from towpath.client.client import Client
from towpath.errors import TowpathError, UnavailableError
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
    listed: str | None = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """List all waiting gates that match and take the verdict; with --listed they get it.

    Args:
        verdict: approved or denied for calls that wait for a person; happened, did_not_happen or retry for calls of
            which nobody knows whether they happened.
        tool: Only gates of calls of this tool.
        run: Only gates of this run, and of the runs below it where a caller submitted it.
        reason: Why, or how you know; it stands in the audit of each. A denial needs it, and its model sees it.
        listed: Decide what this list had, as the same command without it has named it.
    """
    if listed is not None and verdict == "denied" and not reason:
        raise ProblemError(problem("request_invalid", "a denial needs --reason: the model sees it"))
    until = None if listed is None else _time_of(listed)
    out = common.out()
    async with common.connect() as client:
        root = None if run is None else await short_ids.resolve_run_id(client, run)
        found = (await waiting(client.gates, root_run_id=root)).values()
        gates = [gate for gate in found if _takes(gate, verdict, tool) and (until is None or gate.opened_at <= until)]
        if listed is None:
            _show(out, gates, verdict)
            return OK
        if listed != _name_of(gates):
            detail = "of that list a gate was settled or has changed, or it was listed with other options"
            remedy = "Run the command without --listed, look at what it lists now, and take the name that it prints."
            raise ProblemError(problem("digest_changed", detail, remedy=remedy))
        results: list[dict[str, Any]] = []
        silent: UnavailableError | None = None
        with out.progress(f"Deciding each gate: {verdict}") as shown:
            for gate in gates:
                try:
                    results.append(await _decide(client, gate, verdict, reason))
                except UnavailableError as error:  # each of the others would be waited for as long
                    silent = error
                    break
                shown.count(len(results), "gates", of=len(gates))
    out.rows("gates", results, _DONE, empty="")
    if silent is not None:
        print_notice(f"of {len(gates)} gates {len(gates) - len(results)} may have no verdict: list them anew")
        raise silent
    return RUN_FAILED if any(one["code"] for one in results) else OK


def _show(out: OutputPrinter, gates: Sequence[GateView], verdict: str) -> None:
    rows = [gate.model_dump(mode="json") for gate in gates]
    name = _name_of(gates)
    if out.format in ("json", "yaml"):
        out.data({"gates": rows, "listed": name})
        return
    out.rows("gates", rows, gates_commands.LISTED, empty="No gate that waits matches.")
    if gates:
        print_notice(f"Nothing was decided; give all {len(gates)} the verdict {verdict} with: --listed {name}")


def _name_of(gates: Sequence[GateView]) -> str:
    """Name a list by when the last of its gates opened, and by a digest of its gates and of what each shows."""
    if not gates:
        return ""
    content = "\n".join(sorted(f"{gate.gate_id} {gate.detail.get('digest')}" for gate in gates))
    return f"{max(gate.opened_at for gate in gates).isoformat()}/{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _time_of(listed: str) -> datetime:
    try:
        found = datetime.fromisoformat(listed.partition("/")[0])
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        detail = f"--listed takes the name that the command without it prints, not {listed!r}"
        raise ProblemError(problem("request_invalid", detail))
    return found


def _takes(gate: GateView, verdict: str, tool: str | None) -> bool:
    return verdict in gates_commands.verdicts(gate.model_dump(mode="json")) and tool in (None, gate.detail.get("tool"))


async def _decide(client: Client, gate: GateView, verdict: str, reason: str) -> dict[str, Any]:
    """Settle one gate; one that is refused ends nothing, as the others wait too. Raises UnavailableError."""
    row = {"gate_id": str(gate.gate_id), "run_id": str(gate.run_id), "verdict": verdict, "code": ""}
    digest = gate.detail.get("digest")
    try:
        if verdict == "approved":
            done = await client.gates.approve(gate.gate_id, reason=reason, digest=digest)
        elif verdict == "denied":
            done = await client.gates.deny(gate.gate_id, reason, digest=digest)
        else:
            done = await client.gates.resolve(gate.gate_id, verdict, reason=reason)
    except UnavailableError:
        raise
    except TowpathError as error:
        return {**row, "code": error.problem.code, "detail": error.problem.detail}
    return {**row, "detail": done.detail}
