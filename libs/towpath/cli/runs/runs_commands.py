"""`towpath runs`: list, show, watch, page through and cancel runs.

Printing events needs all their classes: what does so is imported by the commands that print them.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from cyclopts import App, Parameter

from towpath.cli.definitions import goal_options
from towpath.cli.definitions.plans_commands import show_plan
from towpath.cli.runs import bulk_command, run_control_commands, stored_run_commands
from towpath.cli.runs.next_command import next_command
from towpath.cli.runs.run_waits import calls_without_worker, short_waits
from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import OK
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import one_line, plain_json
from towpath_contracts.runs.statuses import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from towpath import Client
    from towpath_contracts.runs.tree import RunTreeNode
    from towpath_contracts.runs.views import RunPage, RunView

Kind = Literal["network", "swarm", "goal", "background", "plan"]

app = App(
    name="runs",
    help="Look at runs, follow and cancel them; replay, export and fork what is stored.",
    help_epilogue=examples("towpath runs list --status waiting", "towpath runs watch 0192f3"),
)
stored_run_commands.add_to(app)
run_control_commands.add_to(app)
bulk_command.add_to(app)
goal_options.add_to(app)
app.command(
    "towpath.cli.runs.prune_command:prune",
    name="prune",
    help="Delete what is stored of runs that ended long ago, after a count of them; their audit stays.",
    help_epilogue=examples(
        "towpath runs prune --older-than 90d",
        "towpath runs prune --older-than 30d --status failed --network support --yes",
    ),
)
app.command(
    "towpath.cli.runs.comparison_command:diff",
    name="diff",
    help="Compare two runs: their steps aligned, and what differs in those that are aligned.",
    help_epilogue=examples("towpath runs diff 0192f3 0192f4", "towpath runs diff 0192f3 0192f4 -o json"),
)


def _network(row: Any) -> str:
    return f"{row['network']}@v{row['version']}"


def _tokens(row: Any) -> str:
    return "" if row["usage"] is None else _spent(row["usage"], row["cost"])


def _tree_tokens(row: Any) -> str:
    """Return what the run used with every run below it; nothing where none of these used anything."""
    usage, cost = row.get("tree_usage"), row.get("tree_cost")
    return "" if usage is None or (usage == row["usage"] and cost["usd"] == row["cost"]["usd"]) else _spent(usage, cost)


def _spent(usage: Any, cost: Any) -> str:
    money = f" · ${cost['usd']:.4f}" if cost["usd"] else "" if cost["price_known"] else " · cost not known"
    cached = usage.get("cached_tokens")
    of_them = f" ({cached} cached)" if cached else ""
    return f"{usage['model_calls']} calls · {usage['total_tokens']} tokens{of_them}{money}"


def _calls(row: Any) -> str:
    return " · ".join(f"{many} {what}" for what, many in row["calls"].items() if many)


def _parent(row: Any) -> str:
    parent = row.get("forked_from")
    return f"from {parent['run_id']} before step {parent['step']}" if parent else ""


def _thread(row: Any) -> str:
    """Return the thread of a run, and where it stands in it; nothing for a run that is alone."""
    places = {"after": row.get("previous_run_id"), "before": row.get("next_run_id")}
    named = ", ".join(f"{word} {run_id}" for word, run_id in places.items() if run_id)
    return f"{row['thread_id']}: {named}" if named else ""


def _answer(row: Any) -> str:
    from towpath.cli.runs.event_lines import answer_text

    return answer_text(row["final"]) if row["final"] is not None else ""


def run_status(row: Any) -> str:
    """Return the status of a run, and whether it was erased since: then only its times and names are left."""
    return f"{row['status']}, erased" if row.get("erased_at") else str(row["status"])


def _why(row: Any) -> str:
    """Return what a run waits for, or why it did not complete, as short as a list needs it: its code comes first."""
    told = (row.get("reason", ""), row.get("message", ""))
    return one_line(row["waits"][0] if row.get("waits") else ": ".join(dict.fromkeys(filter(None, told))), 60)


_LIST = (
    Column("run", "run_id", is_id=True),
    Column("status", run_status),
    Column("network", _network),
    Column("step", lambda row: f"{row['step']}/{row['max_steps']}"),
    Column("why", _why),
    Column("created", lambda row: str(row["created_at"])[:19].replace("T", " ")),
    Column("message", lambda row: one_line(row["user_message"], 60)),
)
_SHOW = (
    Column("run", "run_id"),
    Column("status", lambda row: f"{run_status(row)} {row['reason']}".strip()),
    Column("why", "message"),
    Column("waits", lambda row: "; ".join(row.get("waits", ()))),
    Column("kind", lambda row: "" if row["kind"] == "network" else row["kind"]),
    Column("network", _network),
    Column("parent", "parent_run_id"),
    Column("thread", _thread),
    Column("forked", _parent),
    Column("agent", "agent_key"),
    Column("caller", "caller"),
    Column("message", "user_message"),
    Column("step", lambda row: f"{row['step']} of at most {row['max_steps']}"),
    Column("labels", lambda row: " ".join(f"{name}={value}" for name, value in row["labels"].items())),
    Column("created", "created_at"),
    Column("ended", "ended_at"),
    Column("calls", _calls),
    Column("used", _tokens),
    Column("with children", _tree_tokens),
    Column("answer", _answer),
)


_EFFECT_MARKS = {
    "happened": ("✓", "green"),
    "failed": ("✕", "red"),
    "did_not_happen": ("·", "dim"),
    "unknown": ("?", "magenta"),
    "open": ("◐", "yellow"),
}


@app.command(name="list", help_epilogue=examples("towpath runs list", "towpath runs list --status waiting -o json"))
async def list_runs(
    *,
    status: RunStatus | None = None,
    network: str | None = None,
    label: str | None = None,
    kind: Kind | None = None,
    parent: str | None = None,
    depth: int | None = None,
    thread: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """List runs, newest first.

    Args:
        status: Only these.
        network: Only runs of this network.
        label: Only runs with this key=value.
        kind: Only runs of this kind.
        parent: Only children of this run.
        depth: Only runs that stand so deep; 0 are those that somebody submitted.
        thread: Only the runs of the thread that this run belongs to.
        before: Only older runs than this one.
        limit: How many, at most 200.
    """
    async with common.connect() as client:
        above = None if parent is None else await short_ids.resolve_run_id(client, parent)
        begins = None
        if thread is not None:
            begins = (await client.get(await short_ids.resolve_run_id(client, thread))).thread_id
        page = await client.runs(
            status=status,
            network=network,
            label=label,
            kind=kind,
            depth=depth,
            parent_run_id=above,
            thread_id=begins,
            before=before,
            limit=limit,
        )
        rows = [run.model_dump(mode="json") for run in page.runs]
        out = common.out()
        if out.for_people:
            waits = await short_waits(client, page.runs)
            rows = [{**row, "waits": waits.get(run.run_id, ())} for row, run in zip(rows, page.runs, strict=True)]
        out.rows("runs", rows, _LIST, empty=where_none_are(page))
        await show_untaken(client, page.runs, out)


def where_none_are(page: "RunPage") -> str:
    """Return what is said of a page without runs: there may be older ones that were not looked through."""
    if page.next_before is None:
        return "There are no such runs. Start one: towpath run NETWORK MESSAGE."
    return f"None of the newest runs is such a one. Look through older ones: --before {page.next_before}"


@app.command(help_epilogue=examples("towpath runs show 0192f3", "towpath runs show 0192f3 -o json"))
async def show(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show a run: how it stands, what it did, its answer.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        view = await client.get(run_id)
        out = common.out()
        out.record(view.model_dump(mode="json"), _SHOW)
        if out.for_people:
            out.write("")
            from towpath.cli.runs.event_lines import EventFormatter

            formatter = EventFormatter()
            async for entry in _stored_events(client, run_id, 0):
                for line in formatter.lines(entry.event):
                    out.write(f"  {line}", line.style)
            await show_plan(client, view, out)
            if view.effects:
                out.write("\n  what became of its calls:")
                _show_effects(out, view)
            await show_untaken(client, (view,), out)
            if (command := next_command(view)) is not None:
                out.write(f"\n  go on:  {command}", "dim")


@app.command(help_epilogue=examples("towpath runs tree 0192f3", "towpath runs tree 0192f3 -o json"))
async def tree(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show a run and its child runs, and the gates that they wait at.

    Args:
        run: The run's id, or its beginning or end.
    """
    out = common.out()
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        top = await client.tree(run_id)
        if not out.for_people:
            out.data(top.model_dump(mode="json"))
            return
        gates = await _gates_of_tree(client, run_id) if top.status == "waiting" else {}
    _show_node(out, top, "", gates)
    if top.truncated:
        out.write("More runs stand below it than are shown. Ask for one of its child runs to see what is below that.")


async def _gates_of_tree(client: Any, run_id: Any) -> dict[Any, list[str]]:
    """Return a line for each gate that waits in the tree that the run is in, by the run that waits at it."""
    from towpath.errors import DeniedError

    lines: dict[Any, list[str]] = {}
    try:
        view = await client.get(run_id)
        for gate in await client.gates.list(root_run_id=view.root_run_id or view.run_id, limit=500):
            line = f"◐ gate {gate.gate_id} {gate.gate_type}: {one_line(gate.reason, 60)}"
            lines.setdefault(gate.run_id, []).append(line)
    except DeniedError:  # a key may read runs and no gates
        return {}
    return lines


def _show_node(out: OutputPrinter, node: "RunTreeNode", indent: str, gates: "Mapping[Any, list[str]]") -> None:
    text = one_line(node.user_message, 60)
    what = f" [{one_line(node.subject or node.purpose, 40)}]" if node.subject or node.purpose else ""
    kind = "" if node.kind == "network" else f" {node.kind}"
    status = run_status({"status": node.status, "erased_at": node.erased_at})
    stands = f"{node.run_id}{what}{kind} {node.agent_key} {status} {node.reason}".rstrip()
    further = f"{indent}      "  # further in than its child runs begin
    out.write_folded(f"{stands} · step {node.step} · {text}".rstrip(), start=indent, further=further)
    for line in gates.get(node.run_id, ()):
        out.write_folded(line, "yellow", start=f"{indent}  ", further=further)
    for child in node.children:
        _show_node(out, child, f"{indent}  ", gates)


@app.command(help_epilogue=examples("towpath runs watch 0192f3", "towpath runs watch 0192f3 --children -o jsonl"))
async def watch(
    run: str, /, *, after: int = 0, children: bool = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> int:
    """Follow a run until it ends; the exit code says how it ended.

    Args:
        run: The run's id, or its beginning or end.
        after: Begin after this event.
        children: Follow its child runs too, each under the names that lead to it.
    """
    from towpath.cli.runs.run_command import show_result
    from towpath.cli.runs.run_follower import RunFollower, ask_at_gate
    from towpath.cli.shared.confirmation import is_interactive

    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        out = common.out()
        gate_handler = ask_at_gate if out.for_people and is_interactive() else None
        await RunFollower(client, out, gate_handler, children=children).follow(run_id, after)
        return await show_result(client, run_id, common)


def _content(row: "Mapping[str, Any]") -> str:
    """Return the beginning of what an event holds, as JSON."""
    return one_line(plain_json({name: value for name, value in row["event"].items() if name != "type"}), 160)


@app.command(help_epilogue=examples("towpath runs events 0192f3 -o jsonl", "towpath runs events 0192f3 --after 12"))
async def events(run: str, /, *, after: int = 0, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Print the events that a run has by now, in order.

    Args:
        run: The run's id, or its beginning or end.
        after: Begin after this event.
    """
    columns = (
        Column("seq", "seq"),
        Column("at", lambda row: str(row["at"])[11:23]),
        Column("event", lambda row: row["event"]["type"]),
        Column("content", _content, is_whole=True),
    )
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        rows = [entry.model_dump(mode="json") async for entry in _stored_events(client, run_id, after)]
    common.out().rows("events", rows, columns, empty="The run has no events after that one.")


@app.command(
    help_epilogue=examples("towpath runs cancel 0192f3 --reason 'wrong order'", "towpath runs cancel 0192f3 --wait")
)
async def cancel(
    run: str,
    /,
    *,
    reason: str = "",
    wait: Annotated[bool, Parameter(negative="")] = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Ask a run to stop; nothing of it starts any more, and what already runs is asked to end.

    Args:
        run: The run's id, or its beginning or end.
        reason: Why; it stands in the record.
        wait: Wait until it has stopped.
    """
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        await client.cancel(run_id, reason)
        view = await client.result(run_id) if wait else await client.get(run_id)
    out = common.out()
    out.record(view.model_dump(mode="json"), _SHOW[:3])
    if out.for_people:
        _show_effects(out, view)
    return OK


async def show_untaken(client: "Client", runs: "Iterable[RunView]", out: OutputPrinter) -> None:
    """Show which calls of the project no worker takes, where some of *runs* only look as if they went on."""
    if out.for_people and any(run.status == "running" for run in runs):
        for line in await calls_without_worker(client):
            out.write(f"\n{line}", "yellow")


def _show_effects(out: OutputPrinter, view: Any) -> None:
    """Show what became of the calls of a run that was stopped, one line each."""
    if view.effects_left_out:
        out.write(f"  … {view.effects_left_out} earlier calls", "dim")
    for effect in view.effects:
        mark, style = _EFFECT_MARKS[effect.outcome]
        text = f" ({one_line(effect.source, 40)})" if effect.source else ""
        out.write(f"  {mark} {effect.tool:<24} {effect.outcome}{text}  {effect.execution_id}", style)


async def _stored_events(client: Any, run_id: Any, after: int) -> Any:
    """Yield the events a run has now, page by page, without waiting for more."""
    from towpath_contracts.events.event_pages import EventPage

    while True:
        answer = await client.request("GET", f"/v1/runs/{run_id}/events", query={"after": after, "limit": 500})
        page = EventPage.model_validate(answer)
        for entry in page.entries:
            yield entry
        if not page.entries:
            return
        after = page.entries[-1].seq
