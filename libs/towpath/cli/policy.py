"""`towpath policy`: the permission matrix."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.errors import DENIED, OK, WAITING
from towpath.cli.files import parse_json
from towpath.cli.options import COMMON, Common, examples
from towpath.cli.output import Column
from towpath_contracts.problems import ProblemError, problem

app = App(name="policy", help="Apply and ask the permission matrix.")

_APPLIED = (Column("version", "version"), Column("rules", "rules"), Column("changed", "changed"))
_RULES = (
    Column("rule", "name"),
    Column("effect", "effect"),
    Column("tool", lambda row: row.get("tool")),
    Column("who", lambda row: json.dumps(row.get("who") or {}, ensure_ascii=False)),
    Column("when", lambda row: row.get("when")),
)
_TRACE = (Column("rule", "rule"), Column("effect", "effect"), Column("matched", "matched"), Column("why", "detail"))


@app.command(help_epilogue=examples("towpath policy apply policy.yaml", "towpath policy apply policy.yaml --dry-run"))
async def apply(
    file: Path, /, *, dry_run: Annotated[bool, Parameter(negative="")] = False, note: str = "", common: Common = COMMON
) -> None:
    """Put a matrix in force; a bad one changes nothing, and every problem of it is listed.

    Args:
        file: A YAML file with kind: Policy.
        dry_run: Only check it.
        note: Why; it stands in the audit.
    """
    async with common.asking() as client:
        applied = await client.policy.apply(file, dry_run=dry_run, note=note)
    out = common.out()
    out.record(applied.model_dump(mode="json"), _APPLIED)
    for warning in applied.warnings:
        out.say(f"! {warning}", "yellow")


@app.command(
    help_epilogue=examples(
        """towpath policy check --network support --agent billing --tool orders.refund --args '{"amount": 129}'"""
    )
)
async def check(
    *, network: str, agent: str, tool: str, args: str = "{}", caller: str | None = None, common: Common = COMMON
) -> int:
    """Say what the matrix would answer to a call, and why; nothing is executed.

    The exit code is 0 where it is allowed, 4 where it is denied, 5 where a person must approve.

    Args:
        network: The network.
        agent: The agent's key.
        tool: The tool.
        args: The arguments, a JSON object.
        caller: On whose behalf; you, where it isn't given.
    """
    given = parse_json(args, "--args")
    if not isinstance(given, dict):
        raise ProblemError(problem("request_invalid", "--args takes a JSON object"))
    more = {} if caller is None else {"caller": caller}
    async with common.asking() as client:
        verdict = await client.policy.check(network=network, agent_key=agent, tool=tool, args=given, **more)
    out = common.out()
    said = verdict.model_dump(mode="json")
    if out.for_people:
        out.say(f"{verdict.verdict}  {verdict.reason}".strip(), "bold")
        if verdict.suggestion:
            out.say(verdict.suggestion)
        out.rows("trace", said["trace"], _TRACE, empty="No rule speaks of this call, so it is denied.")
    else:
        out.data(said)
    return {"allow": OK, "deny": DENIED, "require_approval": WAITING}[verdict.verdict]


@app.command(help_epilogue=examples("towpath policy show", "towpath policy show --text > policy.yaml"))
async def show(*, text: Annotated[bool, Parameter(negative="")] = False, common: Common = COMMON) -> None:
    """Show the matrix in force.

    Args:
        text: As the YAML it was applied from.
    """
    async with common.asking() as client:
        view = await client.policy.show()
    out = common.out()
    if text:
        print(view.text, end="" if view.text.endswith("\n") else "\n")
    elif out.for_people:
        out.say(f"version {view.version}, applied {view.applied_at} by {view.applied_by}")
        out.rows("rules", view.rules, _RULES, empty="There are no rules, so nothing is allowed.")
    else:
        out.data(view.model_dump(mode="json"))
