"""`towpath runs replay|export|fork`: what a stored run is good for after its end.

Replays change nothing. Over the platform they run on its engine; with --file on the engine installed here, which
is started as a program and never imported.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.runs.history_command import history
from towpath.cli.shared import short_ids
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.input_files import read_script
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter, print_notice, show_text
from towpath.cli.shared.progress import ProgressLine, progress, without_progress
from towpath.cli.shared.text import json_escaped, one_line
from towpath.extras import require_packages
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.records import PASSES, ReplayPage, ReplayResult, RunRecordPiece

ENGINE = "towpath_orchestrator"

_LOG = (
    Column("step", "step"),
    Column("agent", lambda row: row.get("agent_key", "")),
    Column("what", lambda row: row["decision"]["action"] if row["type"] == "agent" else row.get("tool_key", "")),
    Column("details", lambda row: one_line(_told_by(row), 80)),
    Column("status", lambda row: row.get("status", "")),
    Column("call", lambda row: row.get("execution_id", "")),
)

_REPLAY = examples(
    "towpath runs replay 0192f3",
    "towpath runs replay --all --since 2026-01-31T00:00:00Z --network support",
    "towpath runs replay --file golden/refund.jsonl",
)


def _told_by(row: Mapping[str, Any]) -> str:
    """Return what an entry of the execution log is about."""
    if row["type"] == "agent":
        return str(row["decision"]["action_reasoning"])
    return str(row["text"]) if row["type"] == "system" else f"{row['request_preview']} → {row['response_preview']}"


def add_to(app: App) -> None:
    """Add these commands to `towpath runs`."""
    app.command(history, help_epilogue=examples("towpath runs history 0192f3", "towpath runs history 0192f3 -o json"))
    app.command(log, help_epilogue=examples("towpath runs log 0192f3", "towpath runs log 0192f3 -o json"))
    app.command(
        output,
        help_epilogue=examples(
            "towpath runs output 0192f3 5b1c0f0e-… > report.txt", "towpath runs output 0192f3 5b1c0f0e-… -o json"
        ),
    )
    app.command(replay, help_epilogue=_REPLAY)
    app.command(
        export,
        help_epilogue=examples(
            "towpath runs export 0192f3 > golden/refund.jsonl", "towpath runs export 0192f3 | head -1"
        ),
    )
    app.command(
        fork,
        help_epilogue=examples(
            "towpath runs fork 0192f3 --from-step 3 --note 'The order is 8813.'",
            "towpath runs fork 0192f3 --from-step 1 --set model=openai:gpt-5-mini --set max_steps=20",
        ),
    )
    app.command(
        erase,
        help_epilogue=examples(
            "towpath runs erase 0192f3 --reason 'request 4711'",
            "towpath runs erase 0192f3 --reason 'request 4711' -o json",
        ),
    )


async def log(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show the execution log of a run: what was decided, which calls came of it, how each ended.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        found = await client.execution_log(await short_ids.resolve_run_id(client, run))
    out = common.out()
    if not out.for_people:
        out.data(found.model_dump(mode="json"))
        return
    out.rows("entries", list(found.execution_log), _LOG, empty="Nothing was decided yet.")


async def output(run: str, execution_id: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Print all that a tool call returned, however large: a text as it is, all else as JSON.

    Args:
        run: The run's id, or its beginning or end.
        execution_id: The call, as prompts, events and the record name it.
    """
    async with common.connect() as client:
        result = await client.output(await short_ids.resolve_run_id(client, run), execution_id)
    if isinstance(result, str) and common.is_plain:
        show_text(result)
    else:
        common.out().data(result)


async def replay(
    run: str | None = None,
    /,
    *,
    all_runs: Annotated[bool, Parameter(name="--all", negative="")] = False,
    since: str | None = None,
    network: str | None = None,
    file: tuple[Path, ...] = (),
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Feed the recorded facts to the engine again and compare the events byte for byte.

    With --all it is the gate before a new version: exit code 1 when any run would go another way, or none was found.

    Args:
        run: The run's id, or its beginning or end.
        all_runs: Every stored run of the project, oldest first.
        since: With --all: only runs created since then, ISO 8601 with a zone.
        network: With --all: only runs of this network.
        file: A record that `towpath runs export` wrote; replayed here, without any platform. May be repeated.
    """
    if file and (run is not None or all_runs):
        raise ProblemError(problem("request_invalid", "a --file is replayed by itself, without a run or --all"))
    if file:
        return await _replay_files(file, common.out())
    if (run is None) == (not all_runs):
        raise ProblemError(problem("request_invalid", "name a run, or say --all, or name a --file"))
    async with common.connect() as client:
        if run is not None:
            run_id = await short_ids.resolve_run_id(client, run)
            answer = await client.request("GET", f"/v1/runs/{run_id}/replay")
            return _show_replay(common.out(), ReplayResult.model_validate(answer))
        with common.out().progress("Replaying runs") as shown:
            return await _replay_all(client, common.out(), {"since": since, "network": network}, shown)


async def export(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Print a run's record, snapshot, facts and events, as JSON lines that `runs replay --file` takes.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        with progress("Exporting the run", shown=not sys.stdout.isatty()):
            async for text in record_pieces(client, f"/v1/runs/{run_id}/record"):
                with without_progress():
                    sys.stdout.write(json_escaped(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


async def fork(
    run: str,
    /,
    *,
    from_step: int,
    note: str = "",
    decisions_file: Annotated[Path | None, Parameter(name="--decisions")] = None,
    fresh_budget: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Start a new run that shares what happened before a step, and goes on from there.

    No call before the step is made again: its results are taken from the record. What the run did from that step on
    is not undone, and the fork is a new run that may do it once more: look at `towpath runs show` first.

    Args:
        run: The run's id, or its beginning or end.
        from_step: The first step that is decided anew.
        note: Given to the model before it decides.
        decisions_file: JSON list of decisions that are played from that step on, instead of asking a model.
        fresh_budget: Give it the whole budget of the task once more; without it the two share what is left.
        settings: What its task says otherwise, KEY=VALUE, as often as wanted: model, model_settings.temperature,
            max_steps, max_tool_errors, timeout_ms, with --fresh-budget budget.usd, with --from-step 1 message.
    """
    changes = fork_changes(settings)
    script = None
    if decisions_file is not None:
        read, doubts = read_script(decisions_file)
        script = list(read.entries)
        for doubt in doubts:
            print_notice(doubt)
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        accepted = await client.fork(
            run_id, from_step, note=note, script=script, fresh_budget=fresh_budget, changes=changes
        )
    out = common.out()
    out.record(accepted.model_dump(mode="json"), _ACCEPTED)
    out.write(f"calls of {run_id} from step {from_step} on are not undone; the fork may make them once more", "yellow")
    out.write(f"follow it: towpath runs watch {accepted.run_id}", "dim")


def fork_changes(settings: tuple[str, ...]) -> JsonObject | None:
    """Return KEY=VALUE pairs as the changes of a fork; a dot leads into a part. Raises ProblemError."""
    changes: JsonObject = {}
    for setting in settings:
        name, equals, written = setting.partition("=")
        if not equals or not all(name.split(".")):
            raise ProblemError(problem("request_invalid", f"--set takes KEY=VALUE, not {one_line(setting, 60)}"))
        *path, last = ("user_message" if name == "message" else name).split(".")
        place = changes
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ProblemError(problem("request_invalid", f"--set gives {part} a value of its own, and parts"))
        place[last] = written if last in _TEXTS else _value(written)
    return changes or None


_TEXTS = ("user_message", "model")


def _value(written: str) -> Any:
    """Return JSON as its value, and any other text as it is."""
    try:
        return json.loads(written)
    except ValueError:
        return written


async def erase(run: str, /, *, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Ask for all that is stored of an ended run, and of every run below it, to be erased.

    Nothing is erased until another person confirms it, or you do after the delay: towpath erasures confirm ID. Its id,
    times and status stay, and every proof of the audit.

    Args:
        run: The run's id, or its beginning or end.
        reason: Why; it stands in the log for ever, so it should name nobody.
    """
    from towpath.cli.shared.erasure_columns import show_request

    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        asked = await client.audit.request_run_erasure(run_id, reason)
    show_request(common.out(), asked)


_ACCEPTED = (Column("run", "run_id"), Column("status", "status"), Column("network", "network"))


async def record_pieces(client: Any, path: str) -> AsyncIterator[str]:
    """Yield what is at *path*, piece by piece."""
    cursor: str | None = ""
    while cursor is not None:
        piece = RunRecordPiece.model_validate(await client.request("GET", path, query={"cursor": cursor}))
        yield piece.text
        cursor = piece.next


async def _replay_all(client: Any, out: OutputPrinter, filters: JsonObject, shown: ProgressLine) -> int:
    """Replay page by page; what differs is printed as it is found, so that nothing piles up."""
    totals: dict[str, Any] = {"runs": 0, "events": 0, "identical": 0}
    failed, after = False, None
    while True:
        query = {**filters, "after": after}
        page = ReplayPage.model_validate(await client.request("GET", "/v1/replays", query=query))
        for name in ("runs", "events", "identical"):
            totals[name] += getattr(page, name)
        shown.count(totals["runs"], "runs")
        for result in page.results:
            totals[result.verdict] = totals.get(result.verdict, 0) + 1
            failed = failed or _failed(result)
            _show(out, result)
        after = page.next_after
        if after is None:
            break
    totals["engine_version"] = page.engine_version
    if out.for_people:
        found = ", ".join(f"{value} {name}" for name, value in totals.items() if name not in _NO_COUNT)
        out.write(f"{totals['runs']} runs, {totals['events']} events on engine {page.engine_version}: {found}")
    else:
        out.line(totals)
    if not totals["runs"]:
        out.write("no stored run fits, so nothing was checked", "bold red")
        return RUN_FAILED
    return RUN_FAILED if failed else OK


_NO_COUNT = frozenset({"runs", "events", "engine_version"})


def _failed(result: ReplayResult) -> bool:
    """A record without facts proves nothing, for or against: it is counted and no failure."""
    return result.verdict not in {*PASSES, "incomplete"}


def _show_replay(out: OutputPrinter, result: ReplayResult) -> int:
    _show(out, result)
    return RUN_FAILED if result.verdict not in PASSES else OK


def _show(out: OutputPrinter, result: ReplayResult) -> None:
    if not out.for_people:
        out.line(result.model_dump(mode="json"))
        return
    if result.verdict == "identical":
        added = f"; {result.widened} of them with fields that are new since" if result.widened else ""
        out.write(f"{result.run_id}  identical, {result.events} events{added}", "green")
        return
    recorded_by = ", ".join(result.engine_versions) or "?"
    out.write(f"{result.run_id}  {result.verdict} at event {result.seq}: {result.why}", "bold red")
    out.write(f"  {result.network}@v{result.version}, {result.status}; {result.events} events agree")
    out.write(f"  recorded by engine {recorded_by}, replayed by engine {result.engine_version}")
    for line in result.differences:
        out.write(f"  {line}")
    for name, text in (("recorded", result.recorded), ("replayed", result.replayed)):
        if text:
            out.write(f"  {name}: {text}", "dim")


async def _replay_files(files: tuple[Path, ...], out: OutputPrinter) -> int:
    """Run the engine that is installed here as a program of its own."""
    for path in files:
        if not path.is_file():
            raise ProblemError(problem("file_missing", f"{path} is no file"))
    require_packages(ENGINE)
    words = [word for path in files for word in ("--file", str(path))]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", ENGINE, "replay", "--each", *words), stdout=asyncio.subprocess.PIPE
    )
    with out.progress(f"Replaying {len(files)} files"):
        written, _ = await process.communicate()
    if process.returncode not in (0, 1):
        raise ProblemError(problem("request_invalid", "a file is no record; the line above says which"))
    results = [ReplayResult.model_validate_json(line) for line in written.splitlines()[:-1]]
    for result in results:
        _show(out, result)
    return RUN_FAILED if any(result.verdict not in PASSES for result in results) else OK
