"""`towpath audit show` and `towpath policy explain`: one entry of the audit, and why a call was decided as it was.

The record is what counts; the rule is shown as it stood in the version that decided.
"""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column
from towpath.cli.shared.text import plain_yaml, shorten
from towpath.errors import TowpathError
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.client.client import Client

MAX_ID = 2**63 - 1

_ENTRY = (
    Column("entry", "entry_id"),
    Column("at", "at"),
    Column("phase", "phase"),
    Column("verdict", "verdict"),
    Column("tool", lambda row: f"{row['tool']} v{row['tool_version']}" if row.get("tool_version") else row["tool"]),
    Column("operation", "operation"),
    Column("agent", lambda row: f"{row['agent_key']} of {row['network']}" if row["agent_key"] else ""),
    Column("caller", "caller"),
    Column("actor", "actor"),
    Column("rule", lambda row: f"{row['rule']}, version {row['policy_version']}" if row["rule"] else ""),
    Column("run", "run_id"),
    Column("call", "execution_id"),
    Column("arguments", "args_digest"),
    Column("detail", lambda row: shorten(row["detail"], 0) if row.get("detail") else ""),
)


async def show(entry: int, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show one entry of the audit.

    Args:
        entry: Its number, as `audit search` lists it.
    """
    async with common.connect() as client:
        found = await _entry(client, entry)
    out = common.out()
    out.record(found, _ENTRY)
    out.write(f"\nprove that it stands in the log: towpath audit prove {found['run_id']}", "dim")


async def explain(decision: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Explain why a call was decided as it was: the record, the rule as it stood then, and who asked for what.

    Args:
        decision: The number of the entry in the audit, or the id of the call (its execution id).
    """
    async with common.connect() as client:
        found = await _decision(client, decision)
        rule, gone = await _rule_then(client, found)
    out = common.out()
    if not out.for_people:
        out.data({"decision": found, "rule": rule})
        return
    out.record(found, _ENTRY)
    out.write("")
    if rule is not None:
        out.write(f"The rule {rule['name']}, as it stood in version {found['policy_version']}:", "bold")
        for line in plain_yaml(
            {name: value for name, value in rule.items() if value not in (None, "", [], {})}
        ).splitlines():
            out.write(f"  {line}")
    else:
        out.write(gone or "No rule spoke of this call, so it was denied.")


async def _decision(client: "Client", written: str) -> dict[str, Any]:
    """Return the recorded decision: of an entry by its number, of a call the first one by its id."""
    if written.isascii() and written.isdecimal():
        found = await _entry(client, int(written))
        if found["phase"] != "decision":
            detail = f"entry {written} is of the phase {found['phase']}, and decides nothing"
            raise ProblemError(problem("not_found", detail, remedy=f"Look at it: towpath audit show {written}."))
        return found
    try:
        execution_id = UUID(written)
    except ValueError as error:
        detail = f"{written!r} is no number of an entry, and no whole id of a call"
        remedy = "Find it: towpath audit search --phase decision."
        raise ProblemError(problem("request_invalid", detail, remedy=remedy)) from error
    page = await client.audit.search(execution_id=execution_id, phase="decision", limit=100)
    if not page.entries:
        raise ProblemError(problem("not_found", f"the audit has no decision about the call {written}"))
    return page.entries[-1].model_dump(mode="json")


async def _rule_then(client: "Client", found: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the rule that decided, and else why it can't be shown."""
    if not found["rule"]:
        return None, ""
    try:
        then = await client.policy.show(version=found["policy_version"] or None)
    except TowpathError as error:
        return None, f"The rule {found['rule']} can't be shown as it stood: {error.problem.detail}"
    rules = [rule for rule in then.rules if rule["name"] == found["rule"]]
    return (rules[0], "") if rules else (None, f"{found['rule']} is no rule of a matrix: the platform itself decided.")


async def _entry(client: "Client", number: int) -> dict[str, Any]:
    """Return an entry; raises ProblemError `not_found`. Some numbers are never used, and other projects have theirs."""
    if 0 < number < MAX_ID:
        page = await client.audit.search(before=number + 1, limit=1)
        if page.entries and page.entries[0].entry_id == number:
            return page.entries[0].model_dump(mode="json")
    raise ProblemError(
        problem(
            "not_found",
            f"the audit of this project has no entry {number}",
            remedy="List those that there are: towpath audit search.",
        )
    )
