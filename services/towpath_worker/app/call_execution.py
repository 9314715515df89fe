"""Executes one permitted call and makes its outcome.

Whatever a tool does (returns nonsense, raises, hangs, exits), the result is exactly one ToolOutcome.
"""

import asyncio
import contextlib
import traceback
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Literal

from towpath.errors import ToolError
from towpath.hooks import HookEvent, Hooks
from towpath.tools.arguments import ArgumentsInvalidError
from towpath.tools.context import ToolContext
from towpath.tools.declaration import AnyTool
from towpath.tools.secrets import SecretMissingError
from towpath_contracts.tools.calls import EffectClass, ProbeWord, ToolFailure, ToolOutcome
from towpath_contracts.tools.previews import recorded_preview
from towpath_contracts.tools.tickets import CallingRun
from towpath_fabric.clock import monotonic, wall_ns
from towpath_fabric.crash_points import crash_point
from towpath_fabric.ports import MessageBus
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_readings.spans import tool_key, tool_span
from towpath_worker.adapters.blobs import put_blob
from towpath_worker.adapters.call_folders import CallFolders
from towpath_worker.adapters.run_files import FileChangesLostError, RunFiles
from towpath_worker.adapters.tool_log import ToolLogWriter
from towpath_worker.app.call import CallStage, WorkerCall, call_function
from towpath_worker.app.probe_runner import ProbeAnswer, outcome_unknown, run_probe
from towpath_worker.app.run_ends import RunEnds
from towpath_worker.core.results import (
    CallCutOffError,
    EncodedResult,
    ResultRefusedError,
    encode_result,
    failure_of,
    raised_at,
)
from towpath_worker.metrics import WorkerMetrics

Status = Literal["succeeded", "failed", "ticket_expired"]

NOT_STARTED = ToolFailure(
    code="not_started", message="the worker came too late to start; nothing was done", retryable=True
)

REPORT_S = 1.0
"""Kept of the lease for reporting, when the probe of a cut-off call runs."""


class CallExecutor:
    """Executes calls in this process: async functions on the event loop, plain ones in *threads*."""

    def __init__(
        self,
        bus: MessageBus,
        *,
        worker: str,
        threads: Executor,
        folders: CallFolders,
        hooks: Hooks,
        ends: RunEnds,
        metrics: WorkerMetrics,
        log: Logger,
        telemetry: SpanRecorder | None = None,
    ) -> None:
        self._bus = bus
        self._folders = folders
        self._worker = worker
        self._threads = threads
        self._hooks = hooks
        self._ends = ends
        self._metrics = metrics
        self._log = log
        self._telemetry = telemetry
        self._tool_log = ToolLogWriter(bus, worker)

    async def execute(self, call: WorkerCall, tool: AnyTool, timeout_s: float) -> ToolOutcome:
        """Run the call for at most *timeout_s* and return its outcome; CancelledError only when the process stops.

        A call that may have been started before is probed first, where TAS wants it (`call.probing`).
        """
        call.began_s = call.heartbeat_s = monotonic()
        call.until_s = min(call.began_s + timeout_s, call.lease_until_s)
        context = self._context(call, tool)
        start_ns = wall_ns()
        if self._telemetry is None or not self._telemetry.enabled:
            outcome = await self._with_files(call, tool, context, timeout_s)
        else:
            invocation = call.invocation
            trace = invocation.trace_id or invocation.root_run_id
            with self._telemetry.inside(invocation.run_id, tool_key(invocation), trace):
                outcome = await self._with_files(call, tool, context, timeout_s)
            span = tool_span(invocation, outcome, start_ns=start_ns, end_ns=wall_ns(), agent_key=context.agent)
            self._telemetry.record(invocation.run_id, span)
        self._metrics.outcomes.labels(tool.name, outcome.status).inc()
        self._metrics.seconds.labels(tool.name).observe(outcome.duration_ms / 1000)
        failure = outcome.failure.code if outcome.failure is not None else ""
        self._metrics.count_call(tool.name, outcome.duration_ms / 1000, failure)
        return outcome

    def _context(self, call: WorkerCall, tool: AnyTool) -> ToolContext:
        invocation = call.invocation
        run = CallingRun.model_validate(invocation.run or {})
        return ToolContext(
            execution_id=invocation.execution_id,
            run_id=invocation.run_id,
            attempt=invocation.attempt,
            project=invocation.project,
            network=run.network,
            agent=run.agent_key,
            caller=run.caller,
            labels=run.labels,
            root_run_id=run.root_run_id or invocation.run_id,
            system_params={name: invocation.args[name] for name in run.system_params if name in invocation.args},
            tool=tool.name,
            deadline_s=call.until_s,
            stop=call.stop,
            write_log=self._tool_log.for_call(invocation),
        )

    async def _with_files(self, call: WorkerCall, tool: AnyTool, context: ToolContext, timeout_s: float) -> ToolOutcome:
        """Give a tool the run's files where it asks for them, and take back what it changed in a scratch copy."""
        access = tool.spec.workspace
        if not access:
            return await self._outcome(call, tool, context, timeout_s)
        async with contextlib.AsyncExitStack() as stack:
            try:
                place = await stack.enter_async_context(self._folders.folder())
                files = RunFiles(self._bus, call.invocation, place)
                await files.fetch()
            except (OSError, ResultRefusedError) as error:
                return self.failed(call, _files_unavailable(error))
            outcome = await self._outcome(call, tool, replace(context, workspace=files.folder), timeout_s)
            if access != "scratch" or outcome.status != "succeeded":
                return outcome
            return outcome.model_copy(update=await self._changes(call, files))

    async def _changes(self, call: WorkerCall, files: RunFiles) -> dict[str, Any]:
        """Return the outcome's fields for the files that the tool changed, or for their loss.

        The call has succeeded either way, so that nobody repeats it; the run takes the changes, or tells its model why
        there are none.
        """
        try:
            return {"changes": await files.changed()}
        except FileChangesLostError as error:
            lost, cause = error.lost, "FileChangesLostError"
        except Exception as error:  # noqa: BLE001 - whatever a program left there, the call has an outcome
            lost, cause = FileChangesLostError("workspace_unreadable").lost, type(error).__name__
        self._log.warning(
            "the files that a tool changed are lost",
            tool=call.invocation.tool,
            execution_id=str(call.invocation.execution_id),
            code=lost.code,
            error=cause,
        )
        return {"changes_lost": lost}

    async def _outcome(self, call: WorkerCall, tool: AnyTool, context: ToolContext, timeout_s: float) -> ToolOutcome:
        try:
            arguments = tool.bind(call.invocation.args, context)
        except (ArgumentsInvalidError, SecretMissingError) as error:
            return self.failed(call, failure_of(error))
        probed: ProbeWord = ""
        if call.probing:
            answer = await run_probe(tool, arguments, context, call.lease_until_s - monotonic(), self._threads)
            crash_point("worker.probed")
            outcome = await self._outcome_from_probe(call, answer)
            if outcome is not None:
                return outcome
            probed = answer.verdict
        if call.cancel_reason is not None:
            return self.failed(call, cancelled_failure(call), probed)
        self._ends.note(context)
        await self._notify_hooks("pre_tool_call", call, context)
        left_s = call.lease_until_s - monotonic()
        if left_s <= 0:
            return self.failed(call, NOT_STARTED, probed)
        call.until_s = monotonic() + min(timeout_s, left_s)
        crash_point("worker.before_tool")
        result = await self._run(call, tool, arguments, min(timeout_s, left_s))
        crash_point("worker.after_tool")
        if call.stage is CallStage.RUNNING:  # not reported as hung meanwhile
            call.stage = CallStage.REPORTING
        if isinstance(result, ToolFailure) and result.uncertain and tool.probe is not None:
            result, probed = await self._probe_cut_off_call(call, tool, arguments, context, result)
        if isinstance(result, EncodedResult):
            result = await self._store_large(call, result)
        outcome = (
            self.failed(call, result, probed)
            if isinstance(result, ToolFailure)
            else self._make(call, "succeeded", probe=probed, **_result_fields(result))
        )
        if outcome.failure is not None:
            await self._notify_hooks("error", call, context, outcome)
        await self._notify_hooks("post_tool_call", call, context, outcome)
        return outcome

    async def _outcome_from_probe(self, call: WorkerCall, answer: ProbeAnswer) -> ToolOutcome | None:
        """Return the outcome that a probe's answer gives by itself, or None where the tool has to run."""
        if answer.result is not None:
            result = await self._store_large(call, answer.result)
            if isinstance(result, EncodedResult):
                return self._make(call, "succeeded", probe=answer.verdict, **_result_fields(result))
            return self.failed(call, outcome_unknown(answer, result.message), "failed")
        if answer.verdict == "did_not_happen" or call.probing == "preferred":
            return None
        return self.failed(
            call, outcome_unknown(answer, "an earlier attempt was started and never reported"), answer.verdict
        )

    async def _probe_cut_off_call(
        self, call: WorkerCall, tool: AnyTool, arguments: dict[str, Any], context: ToolContext, cut_off: ToolFailure
    ) -> tuple[EncodedResult | ToolFailure, ProbeWord]:
        """Run the probe of a call that was cut off in the middle, while this worker still holds its lease."""
        limit_s = call.lease_until_s - monotonic() - REPORT_S
        answer = await run_probe(tool, arguments, context, limit_s, self._threads)
        if answer.result is not None:
            return answer.result, answer.verdict
        ended = call.thread is None or call.thread.done()
        if answer.verdict == "did_not_happen" and ended:  # else its thread may do it yet
            nothing = {"uncertain": False, "began": False, "hint": "It did not happen."}
            return cut_off.model_copy(update=nothing), answer.verdict
        return outcome_unknown(answer, f"{cut_off.code}: {cut_off.message}"), answer.verdict

    async def _run(
        self, call: WorkerCall, tool: AnyTool, arguments: dict[str, Any], timeout_s: float
    ) -> EncodedResult | ToolFailure:
        """Call the function and encode what it returns; everything that goes wrong is a ToolFailure."""
        call.stage = CallStage.RUNNING
        try:
            return encode_result(await call_function(tool, arguments, timeout_s, self._threads, call))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or (task.cancelling() and call.cancel_reason is None):
                raise  # the process stops
            if not task.cancelling():
                message = "CancelledError: the tool cancelled itself"
                return ToolFailure(code="tool_exception", message=message, place=raised_at(error))
            task.uncancel()  # this cancellation was the call's own and ends here
            return mark_uncertain(tool, cancelled_failure(call))
        except CallCutOffError as error:
            return mark_uncertain(tool, failure_of(error))
        except (ResultRefusedError, ToolError) as error:
            return failure_of(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - every exception of a user's function is a result
            self._log_failure(call, error)
            return failure_of(error)

    async def _store_large(self, call: WorkerCall, result: EncodedResult) -> EncodedResult | ToolFailure:
        """Return *result* once it is where the outcome says it is."""
        if not result.is_large:
            return result
        try:
            await put_blob(self._bus, call.invocation, result)
        except ResultRefusedError as error:
            return failure_of(error)
        return result

    async def late_outcome(self, call: WorkerCall, returned: Any) -> ToolOutcome:
        """Return the outcome of a plain function that ended after its timeout, with a value or a ToolFailure."""
        if isinstance(returned, ToolFailure):
            return self.failed(call, returned)
        try:
            result = await self._store_large(call, encode_result(returned))
        except ResultRefusedError as error:
            result = failure_of(error)
        if isinstance(result, EncodedResult):
            return self._make(call, "succeeded", **_result_fields(result))
        return self.failed(call, result)

    def failed(self, call: WorkerCall, failure: ToolFailure, probe: ProbeWord = "") -> ToolOutcome:
        """Return the outcome of a call that has no result; *probe* is its probe's verdict.

        Only this process knows whether the call began.
        """
        began = call.stage is not CallStage.CHECKING if failure.began is None else failure.began
        return self._make(call, "failed", failure=failure.model_copy(update={"began": began}), probe=probe)

    def expired(self, call: WorkerCall) -> ToolOutcome:
        """Return the outcome of a call whose ticket ran out before it began: TAS authorises it again."""
        return self._make(call, "ticket_expired")

    def _make(self, call: WorkerCall, status: Status, **more: Any) -> ToolOutcome:
        invocation = call.invocation
        took_s = monotonic() - call.began_s if call.began_s else 0.0
        return ToolOutcome(
            execution_id=invocation.execution_id,
            run_id=invocation.run_id,
            attempt=invocation.attempt,
            claim_id=call.claim_id,
            tool=invocation.tool,
            status=status,
            duration_ms=round(took_s * 1000),
            worker=self._worker,
            ticket=invocation.ticket,
            **more,
        )

    async def _notify_hooks(
        self, name: str, call: WorkerCall, context: ToolContext, outcome: ToolOutcome | None = None
    ) -> None:
        if not self._hooks.has(name):
            return
        event = HookEvent(
            name=name,
            worker=self._worker,
            tool=call.invocation.tool,
            args=call.invocation.args,
            context=context,
            status=outcome.status if outcome is not None else "",
            failure=outcome.failure if outcome is not None else None,
            duration_ms=outcome.duration_ms if outcome is not None else 0,
        )
        await self._hooks.notify(event)

    def _log_failure(self, call: WorkerCall, error: BaseException) -> None:
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


def _files_unavailable(error: OSError | ResultRefusedError) -> ToolFailure:
    """Return the failure of a call that could not get the run's files: it has not begun, and may be tried again."""
    code = error.code if isinstance(error, ResultRefusedError) else "workspace_unavailable"
    refused = isinstance(error, ResultRefusedError)
    message = str(error) if refused else f"no folder could be made: {type(error).__name__}"
    return ToolFailure(code=code, message=message, retryable=True, external=True, began=False)


def cancelled_failure(call: WorkerCall) -> ToolFailure:
    """Return the failure of a call that was stopped on request."""
    return ToolFailure(code="cancelled", message=call.cancel_reason or "cancelled")


def mark_uncertain(tool: AnyTool, failure: ToolFailure) -> ToolFailure:
    """Mark *failure* of a call that was cut off in the middle, so that nobody repeats what may have happened."""
    if tool.spec.effect_class is EffectClass.PURE:
        return failure
    if tool.spec.effect_class is EffectClass.IDEMPOTENT:
        return failure.model_copy(update={"uncertain": True})  # it may run again; who lists effects must know
    hint = "It may have happened all the same: find out before calling it again."
    return failure.model_copy(update={"retryable": False, "hint": hint, "uncertain": True})


def _result_fields(result: EncodedResult) -> dict[str, Any]:
    """Return the outcome's fields for *result*: the value itself, or the digest of its blob and what is shown of it."""
    about = {"result_digest": result.digest, "result_bytes": len(result.data)}
    if not result.is_large:
        return {**about, "result": result.value}
    text = result.value if isinstance(result.value, str) else result.data.decode()
    return {**about, "blob": True, "preview": recorded_preview(text)}
