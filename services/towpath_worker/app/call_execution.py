"""Runs one permitted call and says what came of it.

Whatever a tool does (returns nonsense, raises, hangs, exits), the answer is one ToolOutcome.
"""

import asyncio
import tempfile
import traceback
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from towpath.errors import ToolError
from towpath.hooks import Hooks, Moment
from towpath.tools.arguments import ArgumentsInvalidError
from towpath.tools.context import ToolContext
from towpath.tools.declaration import AnyTool
from towpath.tools.secrets import SecretMissingError
from towpath_contracts.tools.calls import EffectClass, ProbeWord, ToolFailure, ToolOutcome
from towpath_fabric.clock import monotonic, wall_ns
from towpath_fabric.crash_points import crash_point
from towpath_fabric.nats.bus import Bus
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import Telemetry
from towpath_readings.spans import tool_span
from towpath_worker.adapters.blobs import put_blob
from towpath_worker.adapters.run_files import ChangesLostError, RunFiles
from towpath_worker.adapters.tool_log import ToolLogWriter
from towpath_worker.app.call import Call, Stage, call_function
from towpath_worker.app.probe_runner import Answer, ask_probe, in_doubt
from towpath_worker.core.results import CutOffError, Result, ResultRefusedError, encode_result, failure_of
from towpath_worker.metrics import WorkerMetrics

Status = Literal["succeeded", "failed", "ticket_expired"]

TOO_LATE = ToolFailure(
    code="not_started", message="the worker came too late to start; nothing was done", retryable=True
)

REPORT_S = 1.0
"""What is kept of a lease for reporting, when a cut-off call is looked up by its probe."""


class Performer:
    """Performs calls in this process: async functions on the event loop, plain ones in *threads*."""

    def __init__(
        self,
        bus: Bus,
        *,
        worker: str,
        threads: Executor,
        hooks: Hooks,
        metrics: WorkerMetrics,
        log: Logger,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._bus = bus
        self._worker = worker
        self._threads = threads
        self._hooks = hooks
        self._metrics = metrics
        self._log = log
        self._telemetry = telemetry
        self._toollog = ToolLogWriter(bus, worker)

    async def perform(self, call: Call, tool: AnyTool, timeout_s: float) -> ToolOutcome:
        """Run the call for at most *timeout_s* and return its outcome; CancelledError only when the process stops.

        A call that may have been started before is probed first, where TAS wants it (`call.probing`).
        """
        call.began_s = call.beat_s = monotonic()
        call.until_s = min(call.began_s + timeout_s, call.lease_until_s)
        context = ToolContext(
            execution_id=call.invocation.execution_id,
            run_id=call.invocation.run_id,
            attempt=call.invocation.attempt,
            project=call.invocation.project,
            tool=tool.name,
            deadline_s=call.until_s,
            stop=call.stop,
            write_log=self._toollog.for_call(call.invocation),
        )
        start_ns = wall_ns()
        outcome = await self._with_files(call, tool, context, timeout_s)
        if self._telemetry is not None and self._telemetry.enabled:
            span = tool_span(call.invocation, outcome, start_ns=start_ns, end_ns=wall_ns())
            self._telemetry.record(call.invocation.run_id, span)
        self._metrics.outcomes.labels(tool.name, outcome.status).inc()
        self._metrics.seconds.labels(tool.name).observe(outcome.duration_ms / 1000)
        return outcome

    async def _with_files(self, call: Call, tool: AnyTool, context: ToolContext, timeout_s: float) -> ToolOutcome:
        """Give a tool the run's files where it asks for them, and take back what it changed in a scratch copy."""
        access = tool.spec.workspace
        if not access:
            return await self._outcome(call, tool, context, timeout_s)
        try:
            place = tempfile.TemporaryDirectory(prefix="towpath-", ignore_cleanup_errors=True)
        except OSError as error:
            return self.failed(call, _no_files(error))
        with place:
            files = RunFiles(self._bus, call.invocation, Path(place.name))
            try:
                await files.fetch()
            except ResultRefusedError as error:
                return self.failed(call, _no_files(error))
            outcome = await self._outcome(call, tool, replace(context, workspace=files.folder), timeout_s)
            if access != "scratch" or outcome.status != "succeeded":
                return outcome
            return outcome.model_copy(update=await self._changes(call, files))

    async def _changes(self, call: Call, files: RunFiles) -> dict[str, Any]:
        """Return what the outcome of a call that happened says of its files: it must not look as if it may be repeated.

        The run takes the changes or tells its model why there are none; the call has succeeded either way.
        """
        try:
            return {"changes": await files.changed()}
        except ChangesLostError as error:
            said = {"execution_id": str(call.invocation.execution_id), "code": error.lost.code}
            self._log.warning("the files that a tool changed are lost", tool=call.invocation.tool, **said)
            return {"changes_lost": error.lost}

    async def _outcome(self, call: Call, tool: AnyTool, context: ToolContext, timeout_s: float) -> ToolOutcome:
        try:
            arguments = tool.bind(call.invocation.args, context)
        except (ArgumentsInvalidError, SecretMissingError) as error:
            return self.failed(call, failure_of(error))
        probed: ProbeWord = ""
        if call.probing:
            answer = await ask_probe(tool, arguments, context, call.lease_until_s - monotonic(), self._threads)
            crash_point("worker.probed")
            settled = await self._settled(call, answer)
            if settled is not None:
                return settled
            probed = answer.said
        if call.cancel_reason is not None:
            return self.failed(call, cancelled(call), probed)
        await self._tell("pre_tool_call", call, context)
        left_s = call.lease_until_s - monotonic()
        if left_s <= 0:
            return self.failed(call, TOO_LATE, probed)
        call.until_s = monotonic() + min(timeout_s, left_s)
        crash_point("worker.before_tool")
        found = await self._run(call, tool, arguments, min(timeout_s, left_s))
        crash_point("worker.after_tool")
        if call.stage is Stage.RUNNING:  # not reported as hung meanwhile
            call.stage = Stage.REPORTING
        if isinstance(found, ToolFailure) and found.uncertain and tool.probe is not None:
            found, probed = await self._looked_up(call, tool, arguments, context, found)
        if isinstance(found, Result):
            found = await self._stored(call, found)
        outcome = (
            self.failed(call, found, probed)
            if isinstance(found, ToolFailure)
            else self._make(call, "succeeded", probe=probed, **_carried(found))
        )
        if outcome.failure is not None:
            await self._tell("error", call, context, outcome)
        await self._tell("post_tool_call", call, context, outcome)
        return outcome

    async def _settled(self, call: Call, answer: Answer) -> ToolOutcome | None:
        """Return the outcome that a probe's answer gives by itself, or None where the tool has to run."""
        if answer.result is not None:
            found = await self._stored(call, answer.result)
            if isinstance(found, Result):
                return self._make(call, "succeeded", probe=answer.said, **_carried(found))
            return self.failed(call, in_doubt(answer, found.message), "failed")
        if answer.said == "did_not_happen" or call.probing == "preferred":
            return None
        return self.failed(call, in_doubt(answer, "an earlier attempt was started and never reported"), answer.said)

    async def _looked_up(
        self, call: Call, tool: AnyTool, arguments: dict[str, Any], context: ToolContext, cut_off: ToolFailure
    ) -> tuple[Result | ToolFailure, ProbeWord]:
        """Ask the probe about a call that was cut off in the middle, while this worker still holds its lease."""
        limit_s = call.lease_until_s - monotonic() - REPORT_S
        answer = await ask_probe(tool, arguments, context, limit_s, self._threads)
        if answer.result is not None:
            return answer.result, answer.said
        ended = call.thread is None or call.thread.done()
        if answer.said == "did_not_happen" and ended:  # else its thread may do it yet
            nothing = {"uncertain": False, "began": False, "hint": "It did not happen."}
            return cut_off.model_copy(update=nothing), answer.said
        return in_doubt(answer, f"{cut_off.code}: {cut_off.message}"), answer.said

    async def _run(
        self, call: Call, tool: AnyTool, arguments: dict[str, Any], timeout_s: float
    ) -> Result | ToolFailure:
        """Call the function and encode what it returns; everything that goes wrong is a ToolFailure."""
        call.stage = Stage.RUNNING
        try:
            return encode_result(await call_function(tool, arguments, timeout_s, self._threads, call))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or (task.cancelling() and call.cancel_reason is None):
                raise  # the process stops
            if not task.cancelling():
                return ToolFailure(code="tool_exception", message="CancelledError: the tool cancelled itself")
            task.uncancel()  # this cancellation was the call's own and ends here
            return unsure(tool, cancelled(call))
        except CutOffError as error:
            return unsure(tool, failure_of(error))
        except (ResultRefusedError, ToolError) as error:
            return failure_of(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - every exception of a user's function is a result
            self._note(call, error)
            return failure_of(error)

    async def _stored(self, call: Call, result: Result) -> Result | ToolFailure:
        """Return *result* once it is where the outcome says it is."""
        if not result.is_large:
            return result
        try:
            await put_blob(self._bus, call.invocation, result)
        except ResultRefusedError as error:
            return failure_of(error)
        return result

    async def ended_late(self, call: Call, came_to: Any) -> ToolOutcome:
        """Return the outcome of a plain function that ended after its time, with a value or a ToolFailure."""
        if isinstance(came_to, ToolFailure):
            return self.failed(call, came_to)
        try:
            found = await self._stored(call, encode_result(came_to))
        except ResultRefusedError as error:
            found = failure_of(error)
        if isinstance(found, Result):
            return self._make(call, "succeeded", **_carried(found))
        return self.failed(call, found)

    def failed(self, call: Call, failure: ToolFailure, probe: ProbeWord = "") -> ToolOutcome:
        """Return the outcome of a call that has no result; *probe* is what its probe said.

        Whether it began is known here, and only here.
        """
        began = call.stage is not Stage.CHECKING if failure.began is None else failure.began
        return self._make(call, "failed", failure=failure.model_copy(update={"began": began}), probe=probe)

    def expired(self, call: Call) -> ToolOutcome:
        """Return the outcome of a call whose ticket ran out before it began: TAS authorises it again."""
        return self._make(call, "ticket_expired")

    def _make(self, call: Call, status: Status, **more: Any) -> ToolOutcome:
        said = call.invocation
        took_s = monotonic() - call.began_s if call.began_s else 0.0
        return ToolOutcome(
            execution_id=said.execution_id,
            run_id=said.run_id,
            attempt=said.attempt,
            claim_id=call.claim_id,
            tool=said.tool,
            status=status,
            duration_ms=round(took_s * 1000),
            worker=self._worker,
            ticket=said.ticket,
            **more,
        )

    async def _tell(self, name: str, call: Call, context: ToolContext, outcome: ToolOutcome | None = None) -> None:
        if not self._hooks.has(name):
            return
        told = Moment(
            name=name,
            worker=self._worker,
            tool=call.invocation.tool,
            args=call.invocation.args,
            context=context,
            status=outcome.status if outcome is not None else "",
            failure=outcome.failure if outcome is not None else None,
            duration_ms=outcome.duration_ms if outcome is not None else 0,
        )
        await self._hooks.tell(told)

    def _note(self, call: Call, error: BaseException) -> None:
        """Log where a tool failed. The message may hold arguments and stays out of the log."""
        frames = traceback.extract_tb(error.__traceback__)
        at = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        self._log.info(
            "tool raised",
            tool=call.invocation.tool,
            execution_id=str(call.invocation.execution_id),
            error=type(error).__name__,
            at=at,
        )


def _no_files(error: OSError | ResultRefusedError) -> ToolFailure:
    """Say that a call had no place for the run's files, or none of them: it has not begun, and may be tried again."""
    code = error.code if isinstance(error, ResultRefusedError) else "workspace_unavailable"
    said = str(error) if isinstance(error, ResultRefusedError) else f"no folder could be made: {type(error).__name__}"
    return ToolFailure(code=code, message=said, retryable=True, external=True, began=False)


def cancelled(call: Call) -> ToolFailure:
    """Say that the call was stopped on request."""
    return ToolFailure(code="cancelled", message=call.cancel_reason or "cancelled")


def unsure(tool: AnyTool, failure: ToolFailure) -> ToolFailure:
    """Return *failure* of a call that was cut off in the middle, so that nobody repeats what may have happened."""
    if tool.spec.effect_class is EffectClass.PURE:
        return failure
    if tool.spec.effect_class is EffectClass.IDEMPOTENT:
        return failure.model_copy(update={"uncertain": True})  # it may run again; who lists effects must know
    hint = "It may have happened all the same: find out before calling it again."
    return failure.model_copy(update={"retryable": False, "hint": hint, "uncertain": True})


def _carried(result: Result) -> dict[str, Any]:
    """Return the outcome's fields for *result*: the value itself, or the digest of its blob."""
    about = {"result_digest": result.digest, "result_bytes": len(result.data)}
    return {**about, "blob": True} if result.is_large else {**about, "result": result.value}
