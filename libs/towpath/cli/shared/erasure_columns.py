"""How an erasure is shown, whichever command asked for it."""

from towpath.cli.shared.output import Column, Row


def erased_things(row: Row) -> str:
    """Return what an erasure erases, in words."""
    if row["kind"] == "run":
        return f"run {row['run_id']} and what is below it"
    named = ((name, row[name]) for name in ("run_id", "execution_id", "caller", "before"))
    return ", ".join(f"{name.removesuffix('_id')} {value}" for name, value in named if value is not None)


def _minute(name: str) -> Column:
    return Column(name.replace("_", " "), lambda row: str(row[name] or "")[:16].replace("T", " "))


ERASURE = (
    Column("erasure", "erasure_id"),
    Column("status", "status"),
    Column("what", erased_things),
    Column("requested by", "requested_by"),
    _minute("requested_at"),
    _minute("alone_from"),
    Column("decided by", "decided_by"),
    Column("runs", lambda row: str(row["runs"] or "")),
    Column("erased by", lambda row: " ".join(row["parts"])),
    Column("payloads erased", "erased"),
    Column("why", lambda row: row["reason"][:80]),
)
