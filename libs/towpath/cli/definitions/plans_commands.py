"""`towpath plans`: check a plan before anything runs, and see how the steps of one stand."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.definitions.plan_options import Many, read_plan, read_values
from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import OK
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import one_line
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import counted

if TYPE_CHECKING:
    from towpath.client.client import Client
    from towpath_contracts.runs.views import RunView
    from towpath_readings.plans import PlanView

app = App(
    name="plans",
    help="Check plans, and see how their steps stand.",
    help_epilogue=examples("towpath plans check digest.yaml", "towpath plans show 0192f3"),
)

_MARKS = {
    "success": ("✓", "green"),
    "failed": ("✕", "red"),
    "partial": ("✕", "red"),
    "running": ("◐", "yellow"),
    "waiting": ("◐", "yellow"),
    "skipped": ("·", "dim"),
    "pending": ("·", "dim"),
}
_ORIGINS = {"given": "the caller", "planned": "a model", "flow": "the flow of its swarm"}
_SHOW = (
    Column("run", "run_id"),
    Column("kind", "kind"),
    Column("status", lambda row: f"{row['status']} {row['reason']}".strip()),
    Column("plan", lambda row: " · ".join(filter(None, (row["name"], row["description"])))),
    Column("from", lambda row: _ORIGINS.get(row["origin"], "")),
    Column("state", lambda row: f"{row['state']} {row['current_step']}".strip()),
)


@app.command(
    help_epilogue=examples(
        "towpath plans check digest.yaml", "towpath plans check digest.yaml --network papers --set topic=locks"
    )
)
async def check(
    file: Path,
    /,
    *,
    network: str | None = None,
    set: Annotated[Many, Parameter(name="--set")] = (),  # noqa: A002 - the option's name
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Say everything that is wrong with a plan, each fault with its place; nothing is run.

    Args:
        file: A YAML or JSON file with the steps of the plan, or a task with a plan in it.
        network: The published network that is to carry it out; without it nobody is asked whether its agents exist.
        set: key=value, or key:=JSON: a value for {{ bindings.key }}; may be given more than once.
    """
    from towpath_contracts.networks.plan import with_own_names
    from towpath_contracts.networks.plan_checks import PLAN_INVALID, check_plan

    held = read_plan(file)
    written = held.task.get("plan")
    if written is None:
        raise ProblemError(problem(PLAN_INVALID, f"{file} holds no plan, but what a model is to make one for"))
    written = with_own_names(written) if isinstance(written, dict) else written
    agents = _named_in(written) if network is None else await _members(network, common)
    bindings = {**held.task.get("bindings", {}), **read_values(set)}
    plan, faults = check_plan(written, agents=agents, bindings=bindings)
    if faults:
        raise held.refusal(faults)
    steps = 0 if plan is None else len(plan.steps)
    out = common.out()
    if out.for_people:
        out.write(f"{file} is valid: {counted(steps, 'step')}")
    else:
        out.data({"valid": True, "steps": steps, "network": network})
    return OK


@app.command(help_epilogue=examples("towpath plans show 0192f3", "towpath plans show 0192f3 -o json"))
async def show(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show how a plan, or the workflow of a swarm, stands: every step with its agents and their runs.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        view = await client.plan(await short_ids.resolve_run_id(client, run))
    out = common.out()
    out.record(view.model_dump(mode="json"), _SHOW)
    if out.for_people:
        out.write("")
        show_steps(out, view)


async def show_plan(client: "Client", run: "RunView", out: OutputPrinter) -> None:
    """Show the steps of a run that carries out a plan or a workflow; nothing for any other run.

    Of a swarm only its log says whether it is a workflow: agents of a handoff and of a team find their own way.
    """
    if run.kind not in ("plan", "swarm"):
        return
    try:
        view = await client.plan(run.run_id)
    except ProblemError as error:
        if error.problem.code != "not_a_plan":
            raise
        return
    out.write("")
    show_steps(out, view)


def show_steps(out: OutputPrinter, view: "PlanView") -> None:
    """Say of every step what became of it: status, agent, run, time; and what went wrong."""
    for step in view.steps:
        alone = step.agents[0] if step.type == "agent" and step.agents else None
        who = "in parallel" if alone is None else f"{alone.agent_key:<16} {alone.run_id or ''}"
        _show_check(out, "", step, who)
        for agent in () if alone is not None else step.agents:
            _show_check(out, "  ", agent, f"{agent.agent_key:<16} {agent.run_id or ''}")
    shown = {str((step.error or {}).get("message")) for step in view.steps}
    for error in view.errors:
        inner = error.get("error") or {}
        if error.get("step_id") == "" and str(inner.get("message")) not in shown:
            out.write(f"  ✕ {one_line(inner.get('code', ''))}: {one_line(inner.get('message', ''), 160)}", "red")


def _show_check(out: OutputPrinter, indent: str, row: Any, who: str) -> None:
    mark, style = _MARKS[row.status]
    took = "" if row.duration_ms is None else f"{row.duration_ms / 1000:.1f} s"
    named = f"{indent}{mark} {one_line(row.id, 24)}"
    line = f"  {named:<28} {row.status:<8} {took:>8}  {one_line(who)}"
    out.write(line.rstrip(), style)
    if row.error is not None and (row.status == "failed" or indent):
        error = f"{row.error.get('code', '')}: {row.error.get('message', '')}"
        out.write(f"      {indent}{one_line(error, 160)}", style)


async def _members(network: str, common: ConnectionOptions) -> set[str]:
    async with common.connect() as client:
        snapshot = (await client.networks.show(network)).snapshot
    swarm = snapshot.swarm if snapshot is not None else None
    return {*(snapshot.agents if snapshot is not None else ()), *(swarm.swarms if swarm is not None else ())}


def _named_in(written: Any) -> set[str]:
    """Return the agents that a plan names, wherever: without a network nobody knows which there are."""
    found: set[str] = set()
    stack = [written]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if isinstance(key := part.get("agent_key"), str):
                found.add(key)
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
    return found
