"""`towpath gates`: what waits for a person, and the person's decision."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from towpath.cli.access.gate_watch import notices, quorum_progress, watch
from towpath.cli.runs.call_edit import differences, merged_arguments
from towpath.cli.shared import short_ids
from towpath.cli.shared.input_files import parse_json, read_json
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import cut_words, one_line, shorten, sinks_first, value_origin
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.runs.views import ActionDone, GateStatus, GateView
from towpath_contracts.tools.call_summaries import summary_of_gate

app = App(
    name="gates",
    help="Decide what waits for a person.",
    help_epilogue=examples("towpath gates list", "towpath gates approve 7c1e --reason 'checked with the customer'"),
)
app.command(watch, help_epilogue=examples("towpath gates watch", "towpath gates watch -o jsonl"))
app.command(notices, help_epilogue=examples("towpath gates notices", "towpath gates notices --status all -o json"))
app.command(
    "towpath.cli.access.gate_bulk_command:bulk",
    name="bulk",
    help="List the waiting gates that match and take the verdict, and give all of that list the same one.",
    help_epilogue=examples(
        "towpath gates bulk approved --tool orders.refund",
        "towpath gates bulk approved --tool orders.refund --reason 'checked the list' --listed NAME",
        "towpath gates bulk did_not_happen --run 0192f3 --reason 'the bank has none of them' --listed NAME",
    ),
)


def missing_approvals(row: Mapping[str, Any]) -> str:
    """Return who has to approve, where it is more than one approver."""
    role = row["detail"].get("role", "approver")
    if row["quorum"] == 1 and role == "approver":
        return ""
    fallback = "; then the policy admins are asked" if row["detail"].get("on_expiry") == "escalate" else ""
    return f"{row['quorum']} of role {role} ({quorum_progress(row) or 'one person is enough'}){fallback}"


def verdicts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words that the gate takes: other arguments too, where a call waits that was not changed too often."""
    verdicts = tuple(row["detail"].get("verdicts", ("approved", "denied")))
    changeable = row["approval_id"] is not None and row["gate_type"] == "approval" and "edit" not in verdicts
    return (*verdicts, "edit") if changeable else verdicts


WHAT = 200
"""Characters of a call in a table, which folds them: somebody decides by them."""


def describe_gate(row: Mapping[str, Any]) -> str:
    """Return what waits: the call with its arguments, or of a gate of the run itself its type and its cause."""
    detail = row["detail"]
    if summary := summary_of_gate(detail):
        return cut_words(f"{detail['tool']}: {summary}", WHAT)
    if detail.get("tool") and row["execution_id"] is not None:
        return f"{detail['tool']} {shorten(sinks_first(detail), WHAT)}".strip()
    cause = str(detail.get("key", "")).removeprefix(f"{row['gate_type']}:")
    return one_line(f"{row['gate_type']} {cause if cause != row['gate_type'] else ''}".strip(), 60)


WHY = 80
"""Characters of a reason in a table; `gates show` has all of it."""


def why_in_short(row: Mapping[str, Any]) -> str:
    """Return the rule's note, and which values of the call are in doubt, each shortened for a table."""
    texts = (row["reason"], *doubt_lines(row["detail"]))
    return " · ".join(cut_words(text, WHY) for text in texts if text)


def all_values(row: Mapping[str, Any]) -> str:
    """Return where every value of the call comes from."""
    return "; ".join(value_origin(one) for one in row["detail"].get("origins", ()))


def _handed(row: Mapping[str, Any]) -> str:
    """Return whom somebody has handed the gate to, and why."""
    if not row["assigned_to"]:
        return ""
    why = f": {row['assigned_reason']}" if row["assigned_reason"] else ""
    return f"{row['assigned_to']} by {row['assigned_by']}{why}"


LISTED = (
    Column("gate", "gate_id", is_id=True),
    Column("status", "status"),
    Column("run", "run_id", is_id=True),
    Column("what", describe_gate, is_whole=True),
    Column("why", why_in_short),
    Column("votes", quorum_progress),
    Column("handed to", "assigned_to"),
    Column("until", lambda row: str(row["expires_at"])[:16].replace("T", " ")),
)
_SHOW = (
    Column("gate", "gate_id"),
    Column("status", "status"),
    Column("type", "gate_type"),
    Column("run", lambda row: f"{row['run_id']} {row['network']}".strip()),
    Column("agent", lambda row: row["detail"].get("agent")),
    Column("tool", lambda row: row["detail"].get("tool")),
    Column("summary", "summary"),
    Column("arguments", lambda row: shorten(sinks_first(row["detail"]), 0)),
    Column("values", all_values),
    Column("why", "reason"),
    Column("worker", lambda row: row["detail"].get("worker")),
    Column("claimed", lambda row: row["detail"].get("claimed_at")),
    Column("lease", lambda row: row["detail"].get("lease_until")),
    Column("starts", lambda row: row["detail"].get("starts")),
    Column("probe", lambda row: row["detail"].get("probe")),
    Column("retry", lambda row: row["detail"].get("retry_warning")),
    Column("rule", lambda row: row["detail"].get("rule")),
    Column("step", lambda row: row["detail"].get("step")),
    Column("goal", lambda row: one_line(str(row["detail"].get("goal", "")), 96)),
    Column("progress", lambda row: row["detail"].get("progress_score")),
    Column("confidence", lambda row: row["detail"].get("confidence")),
    Column("needs", missing_approvals),
    Column("votes", lambda row: "; ".join(f"{v['actor']} {v['verdict']} {v['reason']}".strip() for v in row["votes"])),
    Column("handed to", _handed),
    Column("edited", lambda row: row["detail"].get("edited_by")),
    Column("changes", lambda row: "; ".join(row["detail"].get("changes", ()))),
    Column("digest", lambda row: row["detail"].get("digest")),
    Column("verdicts", lambda row: " ".join(verdicts(row))),
    Column("opened", "opened_at"),
    Column("expires", "expires_at"),
    Column("closed", lambda row: f"{row['closed_at']} {row['closed_by']}" if row["closed_at"] else ""),
    Column("reason", "closed_reason"),
)


@app.command(name="list", help_epilogue=examples("towpath gates list", "towpath gates list --status all -o json"))
async def list_gates(
    *,
    status: GateStatus | Literal["all"] = "pending",
    run: str | None = None,
    mine: bool = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """List gates, oldest first.

    Args:
        status: pending, approved, denied, expired, settled, void, or all.
        run: Only gates of this run, and of the runs below it where a caller submitted it.
        mine: Only gates that were handed to you, or to a role of yours.
    """
    async with common.connect() as client:
        run_id = None if run is None else await short_ids.resolve_run_id(client, run)
        gates = await client.gates.list(status=status, root_run_id=run_id, assigned_to="me" if mine else None)
    rows = [gate.model_dump(mode="json") for gate in gates]
    waiting = "Nothing waits for a person. What was decided: towpath gates list --status all."
    hint = waiting if status == "pending" else "There are no such gates. What waits: towpath gates list."
    common.out().rows("gates", rows, LISTED, empty=hint)


@app.command(help_epilogue=examples("towpath gates show 7c1e", "towpath gates show 7c1e -o json"))
async def show(gate: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show what waits, why, and until when.

    Args:
        gate: The gate's id, or its beginning or end.
    """
    async with common.connect() as client:
        view = await client.gates.show(await short_ids.resolve_gate_id(client, gate))
    common.out().record(view.model_dump(mode="json"), _SHOW)


@app.command(
    help_epilogue=examples(
        "towpath gates approve 7c1e --reason 'checked with the customer'",
        "towpath gates approve 7c1e --digest sha256:9f2c…",
        "towpath gates approve 7c1e --edit amount=20 --reason 'half of it'",
    )
)
async def approve(
    gate: str,
    /,
    *,
    reason: str = "",
    digest: str | None = None,
    edit: tuple[str, ...] = (),
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Let the call happen, exactly as it is shown now; or let a run that waits go on.

    Args:
        gate: The gate's id, or its beginning or end.
        reason: Why; it stands in the audit.
        digest: Only if the call still has this digest; what `gates show` shows.
        edit: field=value in the place of that argument of the call, which goes on with it; may be given more than once.
    """
    async with common.connect() as client:
        view = await client.gates.show(await short_ids.resolve_gate_id(client, gate))
        bound = digest or view.detail.get("digest")
        args = await merged_arguments(client, view.detail, edit) if edit else {}
        changes = differences(view.detail.get("args") or {}, args) if edit else []
        if _was_decided(common.out(), view, "edit" if changes else "approved", digest):
            return
        if changes:
            done = await client.gates.edit(view.gate_id, args, reason=reason, digest=bound)
        else:
            done = await client.gates.approve(view.gate_id, reason=reason, digest=bound)
        out = common.out()
        for line in changes if out.for_people else ():
            out.write(f"  {line}", "yellow")
        _show_decision(out, view, done, "edit" if changes else "approved")


@app.command(
    help_epilogue=examples(
        "towpath gates deny 7c1e --reason 'ask the customer first'",
        "towpath gates deny 7c1e --reason 'too much' -o json",
    )
)
async def deny(
    gate: str, /, *, reason: str = "", digest: str | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Refuse the call; or have a run that waits go on in another way (towpath gates resolve ID stop ends it).

    Args:
        gate: The gate's id, or its beginning or end.
        reason: Why, or what to do differently; it is required, and the model sees it.
        digest: Only if the call still has this digest.
    """
    async with common.connect() as client:
        view = await client.gates.show(await short_ids.resolve_gate_id(client, gate))
        if not _was_decided(common.out(), view, "denied", digest):
            _show_decision(common.out(), view, await client.gates.deny(view.gate_id, reason, digest=digest), "denied")


@app.command(
    help_epilogue=examples(
        "towpath gates resolve 7c1e happened --reason 'seen in the bank account'",
        "towpath gates resolve 7c1e edit --args @args.json --reason 'half of it'",
        "towpath gates resolve 7c1e stop --reason 'not worth it'",
    )
)
async def resolve(
    gate: str,
    verdict: Literal["approved", "denied", "edit", "happened", "did_not_happen", "retry", "stop"],
    /,
    *,
    args: str | None = None,
    reason: str = "",
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Report what became of a call nobody knows about, change a call or stop a run that waits, or give another verdict.

    Args:
        gate: The gate's id, or its beginning or end.
        verdict: happened, did_not_happen or retry for an unknown effect; edit for other arguments; approved, denied
            (with what to do differently as the reason) or stop for a run that waits.
        args: With edit: all arguments as a JSON object, or @FILE that holds one. Your edit is also your approval.
        reason: How you know; it stands in the audit.
    """
    edited = _edited(verdict, args)
    async with common.connect() as client:
        view = await client.gates.show(await short_ids.resolve_gate_id(client, gate))
        if _was_decided(common.out(), view, verdict, None):
            return
        if edited is None:
            done = await client.gates.resolve(view.gate_id, verdict, reason=reason)
        else:
            digest = view.detail.get("digest")
            done = await client.gates.edit(view.gate_id, edited, reason=reason, digest=digest)
        _show_decision(common.out(), view, done, verdict)


@app.command(
    help_epilogue=examples(
        "towpath gates delegate 7c1e mia --reason 'she knows the customer'", "towpath gates delegate 7c1e role:approver"
    )
)
async def delegate(
    gate: str,
    to: str,
    /,
    *,
    reason: str = "",
    unknown: Annotated[bool, Parameter(negative="")] = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Hand a gate to somebody who may decide there. Who may decide stays as it is.

    Args:
        gate: The gate's id, or its beginning or end.
        to: The person's name as it stands in the audit, or role:NAME for everybody with that role.
        reason: Why; it stands in the audit.
        unknown: Also to a name that never had a key nor signed in.
    """
    async with common.connect() as client:
        gate_id = await short_ids.resolve_gate_id(client, gate)
        view = await client.gates.delegate(gate_id, to, reason=reason, unknown=unknown)
    if common.out().for_people:
        common.out().write(f"gate {view.gate_id} is handed to {view.assigned_to}")
    else:
        common.out().data(view.model_dump(mode="json"))


def _edited(verdict: str, args: str | None) -> JsonObject | None:
    """Return the arguments of an edit; raises ProblemError where they are missing, or belong to no edit."""
    if verdict != "edit":
        if args is not None:
            raise ProblemError(problem("request_invalid", "--args belongs to edit"))
        return None
    if args is None:
        raise ProblemError(problem("request_invalid", "an edit needs --args JSON, or --args @FILE"))
    found = read_json(Path(args[1:])) if args.startswith("@") else parse_json(args, "--args")
    if not isinstance(found, dict):
        raise ProblemError(problem("request_invalid", "--args is not a JSON object"))
    return found


_PARTICIPLES = ("approved", "denied", "expired")


def _was_decided(out: OutputPrinter, gate: GateView, verdict: str, digest: str | None) -> bool:
    """Return whether the gate has this *verdict* already, and say since when; False where nobody has decided yet.

    Raises ProblemError `gate_settled` where it has another one, or an edit is asked for: that would change nothing.
    """
    if gate.status == "pending":
        return False
    when = f" at {gate.closed_at:%Y-%m-%d %H:%M:%S} UTC" if gate.closed_at is not None else ""
    who = f" by {one_line(gate.closed_by, 60)}" if gate.closed_by else ""
    why = f": {one_line(gate.closed_reason, WHAT)}" if gate.closed_reason else ""
    decided = gate.verdict or gate.status
    already = f"{decided} already" if decided in _PARTICIPLES else f"settled already as {decided}"
    told = f"{already}{when}{who}{why}"
    if decided != verdict or verdict == "edit" or digest not in (None, gate.detail.get("digest")):
        raise ProblemError(problem("gate_settled", f"it was {told}"))
    if out.for_people:
        out.write(f"{gate.detail.get('tool', gate.gate_type)}: was {told}; nothing is changed")
    else:
        _write_decision(out, gate, verdict, f"was {told}")
    return True


def _show_decision(out: OutputPrinter, gate: GateView, done: ActionDone, verdict: str) -> None:
    if out.for_people:
        out.write(f"{verdict}: {gate.detail.get('tool', gate.gate_type)}; {done.detail or 'the run goes on'}")
    else:
        _write_decision(out, gate, verdict, done.detail)


def _write_decision(out: OutputPrinter, gate: GateView, verdict: str, detail: str) -> None:
    out.data({"gate_id": str(gate.gate_id), "run_id": str(gate.run_id), "verdict": verdict, "detail": detail})
