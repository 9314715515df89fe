"""`towpath doctor trace`: a run, its trace, its audit and what was executed, held against each other.

The platform keeps them apart, so that each can be believed by itself: the log of the run, the history that is read from
it, and the audit of its calls. What one of them has and another lacks is said; nothing is changed. The audit forgets
what is old (`TOWPATH_AUDIT_KEEP_DAYS`), and runs may be kept for longer: what may have been dropped is unknown, and
never told as missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column, OutputPrinter
from towpath_contracts.base import JsonObject
from towpath_contracts.text import counted
from towpath_fabric.clock import wall

if TYPE_CHECKING:
    from towpath import Client

MOST_ENTRIES = 10_000
"""Entries of the audit that are compared; a run with more of them says that it was not compared whole."""

AT_ONCE = 1_000
ENDED = frozenset({"succeeded", "failed"})
"""Statuses of a call whose outcome the audit has to have."""

EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
"""Since when the audit is known to be kept, where that is from its beginning on, and where nothing is known."""

ORDER_SLACK = timedelta(minutes=1)
"""Segments of the audit are dropped in the order of commits, which may differ from that of times by so much."""

NEVER_DROPPED = timedelta(hours=12)
"""Nothing younger than a day is dropped; the other half is left to clocks that differ."""

MOST_LOOKS = 20
"""Pages that are asked for an older entry of the project: each reads a bounded part of all projects' entries."""

_STEPS = (
    Column("step", "step"),
    Column("agent or tool", "what", is_whole=True),
    Column("status", "status"),
    Column("took", lambda row: _milliseconds(row["took_ms"])),
    Column("of it", lambda row: _milliseconds(row["worked_ms"])),
    Column("audit", lambda row: " ".join(map(str, row["audit"]))),
    Column("execution", "execution_id", is_id=True),
)


async def trace(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> int:
    """Show a run beside its trace, its audit and its executions: where each step spent its time, and what is missing.

    The exit code is 1 where something is missing; of a run that goes on that may be what is under way just now. What
    the audit may have dropped since, or has beyond its newest 10,000 entries of the run, is unknown and not missing.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        run_id = str(await short_ids.resolve_run_id(client, run))
        view: JsonObject = await client.request("GET", f"/v1/runs/{run_id}")
        history = await _history(client, run_id)
        entries, whole = await _entries(client, run_id)
        kept_since = await _kept_since(client, history, entries, whole=whole)
    found = traced_run(view, history, entries, whole=whole, kept_since=kept_since)
    out = common.out()
    if out.for_people:
        _show(found, out)
    else:
        out.data(found)
    return RUN_FAILED if found["missing"] else OK


async def _history(client: "Client", run_id: str) -> JsonObject:
    """Return all that the log-writer has recorded, as one page."""
    found: JsonObject = {"steps": [], "tool_executions": []}
    after: int | None = -1
    while after is not None:
        page = await client.request("GET", f"/v1/runs/{run_id}/history", query={"after_step": after})
        found = {**page, **{name: [*found[name], *page[name]] for name in ("steps", "tool_executions")}}
        after = page["next_after_step"]
    return found


async def _entries(client: "Client", run_id: str) -> tuple[list[JsonObject], bool]:
    """Return the entries of the run's audit, the oldest first, and whether these are all."""
    found: list[JsonObject] = []
    before: int | None = None
    while len(found) < MOST_ENTRIES:
        query = {"run_id": run_id, "limit": AT_ONCE, "before": before}
        page = await client.request("GET", "/v1/audit", query=query)
        found += page["entries"]
        before = page["next_before"]
        if before is None:
            break
    return found[::-1], before is None


async def _kept_since(
    client: "Client", history: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], *, whole: bool
) -> datetime:
    """Return since when the audit is known to be kept and was read, for the calls of *history*.

    The audit is dropped from its beginning on, so one entry of the project that is older than the calls proves that
    theirs were not dropped. Without one, only what came after the oldest entry of the run itself is known.
    """
    asked = [datetime.fromisoformat(one["requested_at"]) for one in history["tool_executions"] if one["requested_at"]]
    known = datetime.fromisoformat(entries[0]["at"]) if entries else LATEST
    if not whole:
        return known
    if not asked or wall() - min(asked) < NEVER_DROPPED:
        return EARLIEST
    before: int | None = None
    for _ in range(MOST_LOOKS):
        query = {"until": (min(asked) - ORDER_SLACK).isoformat(), "limit": 1, "before": before}
        page = await client.request("GET", "/v1/audit", query=query)
        before = page["next_before"]
        if page["entries"]:
            return EARLIEST
        if before is None:
            break
    return known


def traced_run(
    view: Mapping[str, Any],
    history: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    *,
    whole: bool = True,
    kept_since: datetime = EARLIEST,
) -> JsonObject:
    """Return what belongs together of a run, step by step, and what one record has and another lacks.

    That is in `missing`; in `unknown` is what can't be told, because the audit is not known to be kept (*kept_since*)
    or was not read whole.
    """
    audit: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        if entry["execution_id"] is not None:
            audit[entry["execution_id"]].append(entry)
    calls: dict[int, list[JsonObject]] = defaultdict(list)
    for one in history["tool_executions"]:
        calls[one["step_number"]].append(_call(one, audit.get(one["execution_id"], ())))
    steps = [_step(one, calls.pop(one["step_number"], [])) for one in history["steps"]]
    loose = [call for left in calls.values() for call in left]
    missing, unknown = [f"what was said and done: it was erased at {view['erased_at']}"], list[str]()
    if view["erased_at"] is None:
        judged = [*(call for step in steps for call in step["calls"]), *loose]
        missing = [
            *_missing(view, history, loose, judged, kept_since),
            *_unrecorded(audit, history),
        ]
        unknown = [*_unknown(judged, kept_since, whole=whole)]
    return {
        **{name: view[name] for name in ("run_id", "network", "version", "status", "trace_id", "seq")},
        "recorded_seq": history["seq"],
        "audit_entries": len(entries),
        "steps": steps,
        "missing": missing,
        "unknown": unknown,
    }


def _step(row: Mapping[str, Any], calls: list[JsonObject]) -> JsonObject:
    said = row["decisions"].values() if isinstance(row["decisions"], Mapping) else ()
    return {
        "step": row["step_number"],
        "agent": row["agent_id"],
        "began_at": row["timestamp"],
        "ended_at": row["ended_at"],
        "duration_ms": row["duration_ms"],
        "deciding_ms": sum(one.get("duration_ms") or 0 for one in said),
        "calls": calls,
    }


def _call(row: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> JsonObject:
    names = ("execution_id", "tool", "status", "worker", "requested_at", "finished_at", "duration_ms")
    told = [{"entry_id": one["entry_id"], "phase": one["phase"], "verdict": one["verdict"]} for one in entries]
    return {**{name: row[name] for name in names}, "audit": told}


def _missing(
    view: Mapping[str, Any],
    history: Mapping[str, Any],
    loose: Iterable[JsonObject],
    judged: Iterable[JsonObject],
    kept_since: datetime,
) -> Iterable[str]:
    if history["seq"] < view["seq"]:
        yield f"the history has read {history['seq']} of {view['seq']} events; the log-writer lags behind"
    for call in loose:
        yield f"{_named(call)}: the history has no step that it belongs to"
    for call in judged:
        for phase in _lacking(call):
            if _is_known(call, phase, kept_since):
                yield f"{_named(call)}: {_LACKS[phase].format(**call)}"


_LACKS = {"decision": "the audit has no decision about it", "outcome": "it {status}, and the audit has no outcome"}


def _lacking(call: Mapping[str, Any]) -> Iterable[str]:
    """Return which phases the audit lacks that a call has to have."""
    phases = {one["phase"] for one in call["audit"]}
    if "decision" not in phases:
        yield "decision"
    if call["status"] in ENDED and "outcome" not in phases:
        yield "outcome"


def _is_known(call: Mapping[str, Any], phase: str, kept_since: datetime) -> bool:
    """Whether an entry of the call is missing where there is none: it was neither dropped nor left unread.

    An outcome is dropped after its decision, and read before it.
    """
    if kept_since == EARLIEST or (phase == "outcome" and any(one["phase"] == "decision" for one in call["audit"])):
        return True
    written = call["requested_at"] if phase == "decision" else call["finished_at"]
    return written is not None and datetime.fromisoformat(written) - ORDER_SLACK > kept_since


def _unrecorded(audit: Mapping[str, Sequence[Mapping[str, Any]]], history: Mapping[str, Any]) -> Iterable[str]:
    known = {one["execution_id"] for one in history["tool_executions"]}
    for execution_id, entries in audit.items():
        if execution_id not in known:
            phases = ", ".join(one["phase"] for one in entries)
            yield f"execution {execution_id}: the audit has {phases} of it, and the history has no such call"


def _unknown(judged: Iterable[JsonObject], kept_since: datetime, *, whole: bool) -> Iterable[str]:
    if not whole:
        yield f"the audit has more than {MOST_ENTRIES:,} entries of this run; those before were not compared"
    count = sum(any(not _is_known(call, phase, kept_since) for phase in _lacking(call)) for call in judged)
    if count:
        said = f"{counted(count, 'call')} {'was' if count == 1 else 'were'} asked for before what the audit is known to"
        it = "it" if count == 1 else "them"
        yield f"{said} keep, or before what was read of it: whether it lacks anything about {it} can't be told"


def _named(call: Mapping[str, Any]) -> str:
    return f"{call['tool']} (execution {call['execution_id']})"


def _milliseconds(value: int | None) -> str:
    return "" if value is None else f"{value:,} ms"


def _show(found: Mapping[str, Any], out: OutputPrinter) -> None:
    out.write(f"run {found['run_id']}  {found['network']}@v{found['version']}  {found['status']}", "bold")
    out.write(f"trace {found['trace_id']}  events {found['seq']}  audit entries {found['audit_entries']}")
    rows = [row for step in found["steps"] for row in (_step_row(step), *map(_call_row, step["calls"]))]
    out.rows("steps", rows, _STEPS, empty="No step is recorded yet.")
    for sentence in found["missing"]:
        out.write(f"missing: {sentence}", "red")
    for sentence in found["unknown"]:
        out.write(f"unknown: {sentence}", "yellow")
    if not found["missing"] and not found["unknown"]:
        out.write("nothing is missing", "green")


def _step_row(step: Mapping[str, Any]) -> JsonObject:
    shown = {"step": step["step"], "what": step["agent"] or "", "status": "", "audit": (), "execution_id": ""}
    return {**shown, "took_ms": step["duration_ms"], "worked_ms": step["deciding_ms"]}


def _call_row(call: Mapping[str, Any]) -> JsonObject:
    shown = {name: call[name] for name in ("status", "execution_id")}
    took = _between(call["requested_at"], call["finished_at"])
    entries = [one["entry_id"] for one in call["audit"]]
    return {
        **shown,
        "step": "",
        "what": call["tool"],
        "took_ms": took,
        "worked_ms": call["duration_ms"],
        "audit": entries,
    }


def _between(begin: str | None, end: str | None) -> int | None:
    if begin is None or end is None:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() * 1_000)
