"""`towpath demo`: the sample, from an empty machine to a checked record, in one command; with or without a crash.

It shows only what the platform recorded, says when no model was asked, and goes on for a look at the console only
where somebody can end it.
"""

import asyncio
import contextlib
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from cyclopts import App, Parameter, validators

from towpath.cli.administration.demo_crash import OrchestratorKill, was_called_once
from towpath.cli.administration.demo_flood import run_flood
from towpath.cli.administration.embedded_platform import EmbeddedPlatform, start_embedded
from towpath.cli.runs.run_follower import GateHandler, RunFollower, ask_at_gate
from towpath.cli.shared.confirmation import is_interactive
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import JsonOutput, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.client.client import Client
from towpath.model_keys import ModelKeys
from towpath_contracts.events.log import GateOpened, RunFinished
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ExecutionHistory
from towpath_fabric.clock import monotonic

Flag = Annotated[bool, Parameter(negative="")]

app = App(
    name="demo",
    help="Start a platform, run the sample on it, show what happened, stop it again.",
    help_epilogue=examples("towpath demo", "towpath demo run --yes --json", "towpath demo crash", "towpath demo flood"),
)

_AUDIT = (
    *(Column(name, name) for name in ("phase", "verdict", "tool", "rule")),
    Column("by", lambda row: row["actor"] or row["caller"]),
)
MODEL = "gemini:gemini-2.5-flash"
MESSAGE = "Please refund order 8812, it arrived broken."
_NOBODY_TO_ASK = "the demo asks for an approval, and its input is no terminal where somebody could answer"
_APPROVE_BY_ITSELF = "Start it in a terminal, or have it approve by itself, with --yes."
MOST_RUNS = 10_000
HISTORY_TIMEOUT_S = 20.0
HISTORY_POLL_S = 0.1


@dataclass(slots=True)
class DemoTimings:
    """Seconds since the demo began, at the moments worth telling."""

    first_entry: float = field(default_factory=monotonic)
    marks: dict[str, float] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        """Remember now as *name*."""
        self.marks[name] = round(monotonic() - self.first_entry, 2)


@app.default
@app.command(name="run", help_epilogue=examples("towpath demo run", "towpath demo run --yes --json"))
async def demo(
    *,
    yes: Flag = False,
    json: Flag = False,
    output: JsonOutput = None,
    data: Path | None = None,
    keep: bool | None = None,
) -> int:
    """Start a platform, run the sample on it, show what happened, let you look at it in a browser, stop it again.

    Args:
        yes: Approve without asking.
        json: End with one line of JSON; everything else goes to stderr.
        output: The same.
        data: Keep everything in this folder; without it, it is thrown away.
        keep: Go on until Enter or Ctrl-C is pressed; without it, where somebody was asked to approve.
    """
    return await _demonstrate(yes=yes, as_json=json or output is not None, data=data, keep=keep, crash=False)


@app.command(help_epilogue=examples("towpath demo crash", "towpath demo crash --yes --json"))
async def crash(
    *,
    yes: Flag = False,
    json: Flag = False,
    output: JsonOutput = None,
    data: Path | None = None,
    keep: bool | None = None,
) -> int:
    """Kill the orchestrator in the middle of the demo's run; show that the run goes on and no tool is called twice.

    Exit code 1 where a tool was called twice, or the run did not complete.

    Args:
        yes: Approve without asking.
        json: End with one line of JSON; everything else goes to stderr.
        output: The same.
        data: Keep everything in this folder; without it, it is thrown away.
        keep: Go on until Enter or Ctrl-C is pressed; without it, where somebody was asked to approve.
    """
    return await _demonstrate(yes=yes, as_json=json or output is not None, data=data, keep=keep, crash=True)


@app.command(help_epilogue=examples("towpath demo flood", "towpath demo flood --runs 1000 --json"))
async def flood(
    *,
    runs: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=MOST_RUNS))] = 200,
    json: Flag = False,
    output: JsonOutput = None,
    data: Path | None = None,
) -> int:
    """Submit many runs at once, and show how many the platform carries out a second, and how long each takes.

    No model is asked: decisions are played. Exit code 1 where a run did not complete.

    Args:
        runs: So many.
        json: End with one line of JSON; everything else goes to stderr.
        output: The same.
        data: Keep everything in this folder; without it, it is thrown away.
    """
    as_json = json or output is not None
    out = OutputPrinter("table", aside=as_json)
    with _folder(data) as folder:
        async with _platform(folder, out, keep=data is not None) as platform:
            result = await run_flood(platform, out, runs)
    out.write(f"  everything is stopped{f'; the record is kept in {folder}' if data else ''}", "dim")
    if as_json:
        out.line(result)
    return OK if result["statuses"].get("completed") == runs else RUN_FAILED


async def _demonstrate(*, yes: bool, as_json: bool, data: Path | None, keep: bool | None, crash: bool) -> int:
    if not yes and not is_interactive():
        raise ProblemError(problem("request_invalid", _NOBODY_TO_ASK, remedy=_APPROVE_BY_ITSELF))
    out = OutputPrinter("table", aside=as_json)
    looks = keep if keep is not None else not yes and not as_json
    clock = DemoTimings()
    with _folder(data) as folder:
        async with _platform(folder, out, keep=data is not None) as platform:
            clock.mark("ready_s")
            result = await _run_sample(platform, out, approve if yes else ask_at_gate, clock, crash=crash)
            if looks:
                if as_json:
                    out.line({**result, **clock.marks})
                await _look(platform, out)
        clock.mark("total_s")
    out.write(f"  everything is stopped{f'; the record is kept in {folder}' if data else ''}", "dim")
    if as_json and not looks:
        out.line({**result, **clock.marks})
    return OK if result["status"] == "completed" and (not crash or was_called_once(result)) else RUN_FAILED


async def _look(platform: EmbeddedPlatform, out: OutputPrinter) -> None:
    """Say where the console is, and wait for Enter where there is a terminal, else for a signal."""
    out.write(f"\n  the console  {platform.state.get('sign_in_url') or platform.url}", "bold")
    hint = "open it: this run is there, and one that waits for you. The link lets one browser in, once."
    out.write_folded(hint, start="  ", further="    ")
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, pressed.set)
    if sys.stdin.isatty():
        out.write("  Enter or Ctrl-C stops everything", "dim")

        def wait_for_enter() -> None:
            sys.stdin.readline()
            with contextlib.suppress(RuntimeError):  # the loop has ended by Ctrl-C meanwhile
                loop.call_soon_threadsafe(pressed.set)

        threading.Thread(target=wait_for_enter, daemon=True).start()
    else:
        out.write("  Ctrl-C stops everything", "dim")
    await pressed.wait()


async def approve(client: Client, gate: GateOpened, out: OutputPrinter) -> None:
    """Approve what waits, bound to the call as it was shown."""
    out.write("    approved by --yes", "yellow")
    await client.gates.approve(gate.gate_id, reason="approved by the demo's --yes", digest=gate.detail.get("digest"))


@contextlib.contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    """The folder to work in; a temporary one where none was named."""
    if data is None:
        with tempfile.TemporaryDirectory(prefix="towpath-demo-") as folder:
            yield Path(folder)
    else:
        data.mkdir(parents=True, exist_ok=True)
        yield data.absolute()


@contextlib.asynccontextmanager
async def _platform(folder: Path, out: OutputPrinter, *, keep: bool) -> AsyncIterator[EmbeddedPlatform]:
    """Start the platform with the sample; SIGTERM stops it like Ctrl-C."""
    interrupted = signal.getsignal(signal.SIGINT)
    # A shell that starts a job in the background has it ignore SIGINT; SIGTERM must end it all the same.
    signal.signal(signal.SIGTERM, interrupted if callable(interrupted) else signal.default_int_handler)
    out.write("  starting NATS, Postgres and every service …")
    place = ("--data", str(folder / ".towpath")) if keep else ("--ephemeral",)
    async with start_embedded(
        "--port", "auto", "--nats-port", "auto", "--sample", *place, folder=folder, out=out
    ) as platform:
        yield platform


async def _run_sample(
    platform: EmbeddedPlatform, out: OutputPrinter, on_gate: GateHandler, clock: DemoTimings, *, crash: bool
) -> dict[str, Any]:
    async with Client(platform.url, api_key=platform.token) as client:
        options = _model(out)
        accepted = await client.submit("support", MESSAGE, **options)
        out.write(f"\n  run {accepted.run_id}  {accepted.network}@v{accepted.version}: {MESSAGE}", "bold")
        kill = OrchestratorKill(platform, on_gate)
        follower = RunFollower(client, out, kill.at_gate if crash else on_gate)
        finished = await follower.follow(accepted.run_id)
        clock.mark("finished_s")
        if finished is None:
            raise ProblemError(problem("internal", f"the events of run {accepted.run_id} ended before the run did"))
        result = {"model": options["model"], **await _record(client, accepted.run_id, finished)}
        result["tool_calls"] = len(follower.formatter.calls)
        clock.mark("recorded_s")
        await _show_audit(client, accepted.run_id, out)
        if crash:
            result |= await kill.count_calls(client, accepted.run_id, out)
    return result


def _model(out: OutputPrinter) -> dict[str, Any]:
    if "gemini" in ModelKeys().found():
        out.write(f"  decisions come from {MODEL}")
        return {"model": MODEL}
    scripted = (
        "scripted: decisions are played from support.json and no model is asked; set GEMINI_API_KEY for a real one"
    )
    out.write_folded(scripted, start="  ", further="    ")
    return {"model": "scripted:support"}


async def _record(client: Client, run_id: UUID, finished: RunFinished) -> dict[str, Any]:
    """Count what the platform holds of the run, each number from the part that keeps it."""
    view = await client.get(run_id)
    history = await _history(client, run_id, view.seq, finished.steps)
    gates = await client.gates.list(status="all", run_id=run_id)
    audit = await client.audit.search(run_id=run_id, limit=1_000)
    return {
        "run_id": str(run_id),
        "status": view.status,
        "answer": view.final,
        "steps": finished.steps,
        "approvals": sum(gate.status in {"approved", "settled"} and gate.gate_type == "approval" for gate in gates),
        "audit_entries": len(audit.entries),
        "history_steps": len(history.steps),
    }


async def _history(client: Client, run_id: UUID, seq: int, steps: int) -> ExecutionHistory:
    """Wait until the log-writer has read the whole run; it may lag, and it never holds a run up."""
    end = monotonic() + HISTORY_TIMEOUT_S
    while True:
        history = ExecutionHistory.model_validate(await client.request("GET", f"/v1/runs/{run_id}/history"))
        if (history.seq >= seq and len(history.steps) >= steps) or monotonic() > end:
            return history
        await asyncio.sleep(HISTORY_POLL_S)


async def _show_audit(client: Client, run_id: UUID, out: OutputPrinter) -> None:
    page = await client.audit.search(run_id=run_id)
    out.write("\n  the audit of this run (towpath audit search --run …, GET /v1/audit?run_id=…):", "bold")
    rows = [entry.model_dump(mode="json") for entry in reversed(page.entries)]
    out.rows("entries", rows, _AUDIT, empty="  nothing")
