"""`towpath policy`: the permission matrix, its versions and its change log."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.access import (
    policy_cases,
    policy_comparison,
    policy_profile_commands,
    policy_rule_commands,
    policy_suggest_command,
)
from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import DENIED, OK, WAITING
from towpath.cli.shared.input_files import parse_json
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import shorten, value_origin
from towpath_contracts.problems.input_faults import locate_fault
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath_contracts.tools.access import AccessVerdict

app = App(
    name="policy",
    help="Apply and ask the permission matrix; see its past, and what a change would have done.",
    help_epilogue=examples(
        "towpath policy check --network support --agent billing --tool orders.find",
        "towpath policy diff proposed.yaml --since 30d",
    ),
)
Flag = Annotated[bool, Parameter(negative="")]

_APPLIED = (Column("version", "version"), Column("rules", "rules"), Column("changed", "changed"))
_WHO = ("project", "network", "agent", "agent_type", "caller")
_RULES = (
    Column("rule", "name"),
    Column("effect", "effect"),
    Column("tool", lambda row: row.get("tool")),
    Column("who", lambda row: shorten({key: row[key] for key in _WHO if row.get(key, "*") != "*"})),
    Column("when", lambda row: row.get("when")),
    Column("owner", lambda row: row.get("owner")),
    Column("at", lambda row: row.get("at")),
)
_TRACE = (
    Column("rule", "rule"),
    Column("effect", "effect"),
    Column("at", "at"),
    Column("matched", "matched"),
    Column("why", "detail", is_whole=True),
)
_VERSIONS = (
    Column("version", "version"),
    Column("at", lambda row: str(row["applied_at"])[:19].replace("T", " ")),
    Column("by", "applied_by"),
    Column("rules", "rules"),
    Column("why", "note"),
    Column("from", "source"),
)
_PERMISSIONS = (
    Column("tool", "tool"),
    Column("operation", "operation"),
    Column("verdict", lambda row: f"{row['verdict']}{', on conditions' if row['conditional'] else ''}"),
    Column("rules", lambda row: " ".join(row["rules"])),
    Column("look at", "doubt", is_whole=True),
)
_SIGNS = {"added": "+", "removed": "-", "altered": "~"}


@app.command(
    help_epilogue=examples(
        "towpath policy apply policy.yaml",
        "towpath policy apply policy.yaml --dry-run",
        "towpath policy apply --profile balanced",
    )
)
async def apply(
    file: Path | None = None,
    /,
    *,
    profile: str | None = None,
    dry_run: Flag = False,
    strict: Flag = False,
    note: str = "",
    if_version: int | None = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Put a matrix in force; a bad one changes nothing, and every problem of it is listed with its line.

    What is probably wrong is warned about: names that nobody has, rules that never decide.

    Args:
        file: A YAML file with kind: Policy.
        profile: Instead of a file, a profile: open, balanced or strict. In a file write `profile: balanced`.
        dry_run: Only check it.
        strict: Take every warning for a problem.
        note: Why; it stands in the audit and in the change log.
        if_version: Only while this version is in force.
    """
    written = policy_profile_commands.written_policy(file, profile)
    async with common.connect() as client:
        applied = await client.policy.apply(written, dry_run=dry_run, strict=strict, note=note, if_version=if_version)
    out = common.out()
    out.record(applied.model_dump(mode="json"), _APPLIED)
    for warning in applied.warnings:
        out.write(f"! {locate_fault(written.source, warning)}", "yellow")
    for hint in applied.hints:
        out.write(f"  {locate_fault(written.source, hint)}")


@app.command(
    help_epilogue=examples(
        """towpath policy check --network support --agent billing --tool orders.refund --args '{"amount": 129}'""",
        "towpath policy check --network support --agent tech --tool orders.find --run 0192f3",
    )
)
async def check(
    *,
    network: str,
    agent: str,
    tool: str,
    args: str = "{}",
    caller: str | None = None,
    agent_type: str | None = None,
    operation: str | None = None,
    step: int | None = None,
    label: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    grant: str | None = None,
    used: str | None = None,
    spent_usd: float | None = None,
    run: str | None = None,
    origin: str | None = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Show what the matrix would answer to a call, and why; nothing is executed.

    The exit code is 0 where it is allowed, 4 where it is denied, 5 where a person must approve.

    Args:
        network: The network.
        agent: The agent's key.
        tool: The tool.
        args: The arguments, a JSON object.
        caller: On whose behalf; you, where it isn't given.
        agent_type: The agent's type.
        operation: The operation; the tool's own, where it isn't given.
        step: The step of the run.
        label: A label of the run, as name=value; may be given more than once.
        grant: The task's own grant, a JSON list.
        used: How often the run has used limited rules, a JSON object of rule names.
        spent_usd: What the run has cost so far.
        run: Ask as this run would now: what it has seen decides where the values come from.
        origin: State where the values come from instead, a JSON object as conditions see it.
    """
    more = {
        "caller": caller,
        "agent_type": agent_type,
        "operation": operation,
        "step": step,
        "spent_usd": spent_usd,
        "labels": _labels(label),
        "grant": None if grant is None else parse_json(grant, "--grant"),
        "used": None if used is None else _object(used, "--used"),
        "origin": None if origin is None else _object(origin, "--origin"),
    }
    given: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    given["args"] = _object(args, "--args")
    async with common.connect() as client:
        if run is not None:
            given["run_id"] = str(await short_ids.resolve_run_id(client, run))
        verdict = await client.policy.check(network=network, agent_key=agent, tool=tool, **given)
    out = common.out()
    answer = verdict.model_dump(mode="json")
    if out.for_people:
        write_verdict(verdict, out)
        for value in verdict.origins:
            out.write(value_origin(value))
        out.rows("trace", answer["trace"], _TRACE, empty="No rule speaks of this call, so it is denied.")
        for hint in verdict.hints:
            out.write(f"! {hint}", "yellow")
    else:
        out.data(answer)
    return {"allow": OK, "deny": DENIED, "require_approval": WAITING}[verdict.verdict]


@app.command(
    help_epilogue=examples(
        "towpath policy permissions support billing", "towpath policy permissions support billing -o json"
    )
)
async def permissions(
    network: str, agent: str, /, *, agent_type: str = "", common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """List every registered tool that some rule opens to an agent, or bars from it.

    Args:
        network: The network.
        agent: The agent's key.
        agent_type: The agent's type.
    """
    async with common.connect() as client:
        found = await client.policy.permissions(network, agent, agent_type=agent_type)
    rows = [one.model_dump(mode="json") for one in found.permissions]
    common.out().rows("permissions", rows, _PERMISSIONS, empty="No rule speaks of this agent, so it may do nothing.")


@app.command(help_epilogue=examples("towpath policy show", "towpath policy show --text > policy.yaml"))
async def show(
    *, version: int | None = None, text: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Show the matrix in force, or an older version of it.

    Args:
        version: This version, as `policy versions` lists it.
        text: As the YAML it was applied from.
    """
    async with common.connect() as client:
        view = await client.policy.show(version)
    out = common.out()
    if text:
        print(view.text, end="" if view.text.endswith("\n") else "\n")
    elif out.for_people:
        out.write(f"version {view.version}, applied {view.applied_at} by {view.applied_by}")
        out.rows(
            "rules",
            view.rules,
            _RULES,
            empty="There are no rules, so nothing is allowed. Apply some: towpath policy apply FILE.",
        )
    else:
        out.data(view.model_dump(mode="json"))


@app.command(help_epilogue=examples("towpath policy versions", "towpath policy versions --before 12 -o json"))
async def versions(
    *, before: int | None = None, limit: int = 50, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """List the versions of the matrix, newest first.

    Args:
        before: Older than this version.
        limit: How many, at most 500.
    """
    async with common.connect() as client:
        page = await client.policy.versions(before=before, limit=limit)
    out = common.out()
    if out.format in {"json", "yaml"}:
        out.data(page.model_dump(mode="json"))
        return
    hint = "No matrix was ever applied. Apply one: towpath policy apply FILE."
    out.rows("versions", page.model_dump(mode="json")["versions"], _VERSIONS, empty=hint)
    if page.next_before is not None:
        out.write(f"more: --before {page.next_before}", "dim")


@app.command(help_epilogue=examples("towpath policy log", "towpath policy log --limit 1 -o json"))
async def log(*, before: int | None = None, limit: int = 20, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show who changed which rules, when and why, newest first.

    Args:
        before: Older than this version.
        limit: How many versions, at most 500.
    """
    async with common.connect() as client:
        page = await client.policy.changes(before=before, limit=limit)
    out = common.out()
    found = page.model_dump(mode="json")
    if not out.for_people:
        out.data(found)
        return
    for change in found["changes"]:
        at = str(change["applied_at"])[:19].replace("T", " ")
        out.write(f"version {change['version']}  {at}  {change['applied_by']}  {change['note']}".rstrip(), "bold")
        for rule in change["changes"]:
            out.write(f"  {_SIGNS[rule['change']]} {rule['name']}{_altered(rule)}")
        if change["more"]:
            out.write(f"  … and {change['more']} more")
    if page.next_before is not None:
        out.write(f"more: --before {page.next_before}", "dim")


@app.command(
    help_epilogue=examples(
        "towpath policy rollback 7 --note 'the new limits stopped refunds'", "towpath policy rollback 7 --dry-run"
    )
)
async def rollback(
    version: int,
    /,
    *,
    note: str = "",
    if_version: int | None = None,
    dry_run: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Put an older version in force again, as a new version.

    Args:
        version: What `policy versions` lists.
        note: Why; it stands in the audit and in the change log.
        if_version: Only while this version is in force.
        dry_run: Only check it.
    """
    async with common.connect() as client:
        applied = await client.policy.roll_back(version, note=note, if_version=if_version, dry_run=dry_run)
    common.out().record(applied.model_dump(mode="json"), _APPLIED)


def write_verdict(verdict: "AccessVerdict", out: OutputPrinter) -> None:
    """Write the verdict with its rule and where that stands, and for a denial what would allow the call."""
    told = None if verdict.denial is None else verdict.denial.explanation
    where = f"  rule {verdict.rule} ({verdict.rule_at})" if verdict.rule_at and told is None else ""
    out.write(f"{verdict.verdict}  {verdict.reason if told is None else told.detail}{where}".strip(), "bold")
    if told is not None and told.remedy and "policy check" not in told.remedy:
        out.write(told.remedy)
    if verdict.suggestion and told is None:  # what a model is told to do is no news beside the explanation
        out.write(verdict.suggestion)


def _altered(rule: Mapping[str, Any]) -> str:
    """What an altered rule was before and is now, member by member."""
    parts = [f"{name}: {shorten(rule['before'][name])} → {shorten(rule['after'][name])}" for name in rule["fields"]]
    return f"  {'; '.join(parts)}" if parts else ""


def _labels(given: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [text.partition("=") for text in given]
    wrong = [name for name, sign, _ in pairs if not sign or not name]
    if wrong:
        raise ProblemError(problem("request_invalid", f"--label takes name=value, not {wrong[0]!r}"))
    return {name: value for name, _, value in pairs} or None


def _object(text: str, option: str) -> dict[str, Any]:
    given = parse_json(text, option)
    if not isinstance(given, dict):
        raise ProblemError(problem("request_invalid", f"{option} takes a JSON object"))
    return given


app.command(
    "towpath.cli.access.entry_commands:explain",
    name="explain",
    help="Explain why a call was decided as it was: the record, and the rule as it stood then.",
    help_epilogue=examples("towpath policy explain 1204", "towpath policy explain 5b1c0f0e-… -o json"),
)
policy_comparison.add(app)
policy_cases.add(app)
policy_suggest_command.add(app)
app.command(policy_profile_commands.app)
policy_rule_commands.add(app)
