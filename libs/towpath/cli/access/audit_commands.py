"""`towpath audit`: what was decided and what was done."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Group, Parameter

from towpath.cli.shared import short_ids
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, Row
from towpath.cli.shared.times import parse_time
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.text import join_sentences
from towpath_contracts.tools.policy import Dimension

if TYPE_CHECKING:
    from towpath.client.client import Client

app = App(
    name="audit",
    help="Search what was decided and done.",
    help_epilogue=examples("towpath audit search --verdict deny", "towpath audit export --file audit.jsonl"),
)


def _tool(row: Row) -> str:
    """With its version where the entry has one; a column of its own would take the room of the ids."""
    return f"{row['tool']} v{row['tool_version']}" if row.get("tool_version") else row["tool"]


_COLUMNS = (
    Column("entry", "entry_id", is_id=True),
    Column("at", lambda row: str(row["at"])[:19].replace("T", " ")),
    Column("phase", "phase"),
    Column("verdict", "verdict"),
    Column("tool", _tool),
    Column("agent", "agent_key"),
    Column("rule", "rule"),
    Column("by", lambda row: row["actor"] or row["caller"]),
    Column("run", "run_id", is_id=True),
)


@Parameter(name="*", group=Group("Only entries", sort_key=10))
@dataclass(frozen=True, kw_only=True)
class AuditFilterOptions:
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
    args_digest: Annotated[str | None, Parameter(name="--digest")] = None
    "About calls with arguments of this digest (sha256:…)."
    since: str | None = None
    "Not before then: 7d, 12h, or a time; one without a zone is meant in UTC."
    until: str | None = None
    "Not after then."
    before: int | None = None
    "Older than this entry: the next_before of the page before."
    limit: int = 100
    "How many, at most 1000."

    def query(self) -> dict[str, Any]:
        """Return the fields of AuditQuery; raises ProblemError for what is no moment."""
        return {
            **asdict(self),
            "since": parse_time(self.since, "--since"),
            "until": parse_time(self.until, "--until"),
        }


_ALL = AuditFilterOptions()
_NAMES = (("tool", "tool"), ("agent", "agent_key"))
LOOKED_AT = 1_000
"""Entries whose names are told where none fits: as many as one page may have."""

MOST_NAMED = 10
_FIGURES = ("allowed", "denied", "gated", "succeeded", "failed", "unknown")


@app.command(help_epilogue=examples("towpath audit search --verdict deny", "towpath audit search --run 0192f3 -o json"))
async def search(
    *, run: str | None = None, filters: AuditFilterOptions = _ALL, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Search the audit, newest first.

    Args:
        run: Only entries of this run.
    """
    async with common.connect() as client:
        run_id = None if run is None else await short_ids.resolve_run_id(client, run)
        page = await client.audit.search(run_id=run_id, **filters.query())
        unmet = "" if page.entries else await _unmet_name(client, filters)
    out = common.out()
    found = page.model_dump(mode="json")
    if out.format in {"json", "yaml"}:
        out.data(found)
        return
    out.rows(
        "entries",
        found["entries"],
        _COLUMNS,
        empty=join_sentences("No entry fits", unmet, "Without filters all are found: towpath audit search"),
    )
    if page.next_before is not None:
        out.write(f"more: --before {page.next_before}", "dim")


async def _unmet_name(client: "Client", filters: AuditFilterOptions) -> str:
    """Return which name of *filters* stands in none of the newest entries, and which do; nothing where each does."""
    named = [(kind, field, name) for kind, field in _NAMES if (name := getattr(filters, field)) is not None]
    if not named:
        return ""
    newest = (await client.audit.search(limit=LOOKED_AT)).entries
    for kind, field, name in named:
        known = sorted({found for entry in newest if (found := getattr(entry, field))})
        if name not in known:
            listed = [*known[:MOST_NAMED], *([f"{len(known) - MOST_NAMED} more"] if len(known) > MOST_NAMED else [])]
            otherwise = f"; those with entries: {', '.join(listed) or 'none'}"
            return f"None of the newest is of the {kind} {name!r}{suggest_name(name, known, otherwise=otherwise)}"
    return ""


@app.command(help_epilogue=examples("towpath audit stats", "towpath audit stats --since 7d --by agent --by tool"))
async def stats(
    *,
    since: str | None = None,
    until: str | None = None,
    by: Annotated[tuple[Dimension, ...], Parameter(negative="")] = ("tool",),
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Count what was decided and how it ended, with the rates of denial and success.

    Args:
        since: From then on: 7d, 12h, or a time; the last day, where it isn't given.
        until: Up to then.
        by: tool, operation, agent, network, caller or rule; may be given more than once.
    """
    begin, end = parse_time(since, "--since"), parse_time(until, "--until")
    async with common.connect() as client:
        found = await client.policy.statistics(by=by, since=begin, until=end)
    out = common.out()
    answer = found.model_dump(mode="json")
    if not out.for_people:
        out.data(answer)
        return
    keys = tuple(Column(name, _part(name)) for name in found.by)
    counts = tuple(Column(name, name) for name in _FIGURES)
    out.rows("rows", [*answer["rows"], answer["total"]], (*keys, *counts, *_RATES), empty="")
    if not found.complete:
        out.write(f"There is more than is counted at once: these figures begin at {answer['since']}.", "yellow")


def _part(name: str) -> Callable[[Row], object]:
    return lambda row: row["key"].get(name, "all")


def _rate(name: str) -> Callable[[Row], object]:
    return lambda row: "" if row[name] is None else f"{100 * row[name]:.1f} %"


_RATES = (Column("denial", _rate("denial_rate")), Column("ok", _rate("success_rate")))

app.command(
    "towpath.cli.access.entry_commands:show",
    name="show",
    help="Show one entry of the audit.",
    help_epilogue=examples("towpath audit show 1204", "towpath audit show 1204 -o json"),
)

for _name, _help, _epilogue in (
    (
        "export",
        "Write the audit, with the proofs that it is whole, into one file.",
        examples("towpath audit export --file audit.jsonl", "towpath audit export --since 30d --file october.jsonl"),
    ),
    (
        "verify",
        "Check a bundle or a proof without the platform; say where the first fault lies.",
        examples(
            "towpath audit verify audit.jsonl --checkpoint kept.txt --key sha256:9f2c…",
            "towpath audit verify proof.json --checkpoint kept.txt",
        ),
    ),
    (
        "prove",
        "Prove that entries of a run stand in the log.",
        examples("towpath audit prove 7c1e --file proof.json", "towpath audit prove 7c1e --checkpoint kept.txt"),
    ),
    (
        "checkpoint",
        "Take a signed checkpoint, to be kept where the platform can't reach it.",
        examples(
            "towpath audit checkpoint --file kept.txt --key-file audit.pub",
            "towpath audit checkpoint --file kept.txt -o json",
        ),
    ),
    (
        "erase",
        "Ask for payloads of entries to be erased; another person confirms it.",
        examples(
            "towpath audit erase --caller mia --reason 'request 4711'",
            "towpath audit erase --before 365d --reason 'yearly'",
        ),
    ),
):
    app.command(f"towpath.cli.access.audit_bundle_commands:{_name}", name=_name, help=_help, help_epilogue=_epilogue)
