"""How an erasure is shown, whichever command asked for it, and who may confirm it next."""

from towpath.cli.shared.output import Column, OutputPrinter, Row
from towpath.cli.shared.text import one_line
from towpath_contracts.tools.erasures import ErasureView


def erased_things(row: Row) -> str:
    """Return what an erasure erases, in words."""
    if row["kind"] == "run":
        below = row["runs"] - 1
        return f"run {row['run_id']}" if below < 1 else f"run {row['run_id']} and {below} below it"
    if row["kind"] == "prune":
        return f"{row['runs']} runs that ended before {_minute_of(row['before'])}: retention"
    named = ((name, row[name]) for name in ("run_id", "execution_id", "caller", "before"))
    return ", ".join(f"{name.removesuffix('_id')} {value}" for name, value in named if value is not None)


def alone_from(row: Row) -> str:
    """Return from when on who asked may confirm it; at once on a platform for a single person."""
    waits = row["status"] == "requested" and row.get("single_person")
    return "now: this platform is for a single person" if waits else _minute_of(row["alone_from"])


def show_request(out: OutputPrinter, asked: ErasureView) -> None:
    """Print a request that was just made, and for a person what has to come next: nothing is erased yet."""
    row = asked.model_dump(mode="json")
    out.record(row, ONE_ERASURE)
    confirm = f"towpath erasures confirm {asked.erasure_id}"
    if asked.single_person:
        out.write(f"nothing is erased yet; confirm it: {confirm}", "dim")
    else:
        until = f"or {asked.requested_by} from {alone_from(row)} UTC on"
        out.write(f"nothing is erased yet; another person confirms it, {until}: {confirm}", "dim")


def _minute(name: str) -> Column:
    return Column(name.replace("_", " "), lambda row: _minute_of(row[name]))


def _minute_of(moment: object) -> str:
    return str(moment or "")[:16].replace("T", " ")


ERASURE = (
    Column("erasure", "erasure_id", is_id=True),
    Column("status", "status"),
    Column("what", erased_things),
    Column("requested by", "requested_by"),
    _minute("requested_at"),
    Column("alone from", alone_from),
    Column("decided by", "decided_by"),
    Column("runs", lambda row: str(row["runs"] or "")),
    Column("erased by", lambda row: " ".join(row["parts"])),
    Column("payloads erased", "erased"),
    Column("why", lambda row: one_line(row["reason"], 80)),
)

ONE_ERASURE = (*ERASURE, Column("run ids", lambda row: " ".join(row["run_ids"])))
"""Lists have not all ids of runs."""
