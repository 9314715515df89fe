"""`towpath audit`: what was decided and what was done."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

from cyclopts import App, Group, Parameter

from towpath.cli import naming
from towpath.cli.options import COMMON, Common, examples
from towpath.cli.output import Column

app = App(name="audit", help="Search what was decided and done.")

_COLUMNS = (
    Column("entry", "entry_id"),
    Column("at", lambda row: str(row["at"])[:19].replace("T", " ")),
    Column("phase", "phase"),
    Column("verdict", "verdict"),
    Column("tool", "tool"),
    Column("agent", "agent_key"),
    Column("rule", "rule"),
    Column("by", lambda row: row["actor"] or row["caller"]),
    Column("run", lambda row: row["run_id"]),
)


@Parameter(name="*", group=Group("Only entries", sort_key=10))
@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which entries to find; all that are given must fit."""

    tool: str | None = None
    "Of this tool."
    agent_key: Annotated[str | None, Parameter(name="--agent")] = None
    "Of this agent."
    verdict: str | None = None
    "With this verdict: allow, deny, require_approval, succeeded, failed, …"
    phase: str | None = None
    "Of this phase: decision, claim, outcome, approval.…, policy.…"
    actor: str | None = None
    "By this person or key."
    since: datetime | None = None
    "Not before this time."
    until: datetime | None = None
    "Not after this time."
    before: int | None = None
    "Older than this entry: the next_before of the page before."
    limit: int = 100
    "How many, at most 1000."


_ALL = Filters()


@app.command(help_epilogue=examples("towpath audit search --verdict deny", "towpath audit search --run 0192f3 -o json"))
async def search(*, run: str | None = None, filters: Filters = _ALL, common: Common = COMMON) -> None:
    """Search the audit, newest first.

    Args:
        run: Only entries of this run.
    """
    async with common.asking() as client:
        run_id = None if run is None else await naming.run_id(client, run)
        page = await client.audit.search(run_id=run_id, **asdict(filters))
    out = common.out()
    found = page.model_dump(mode="json")
    if out.format in {"json", "yaml"}:
        out.data(found)
        return
    out.rows("entries", found["entries"], _COLUMNS, empty="No entry fits.")
    if page.next_before is not None:
        out.say(f"more: --before {page.next_before}", "dim")
