"""Where a case runs: in a harness of its own, or on a platform that is asked over HTTP."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from towpath.client.client import Client
from towpath_contracts.base import JsonObject
from towpath_contracts.files.evaluation_suite import EvaluationCase
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import GateView
from towpath_testing.evaluation.expectations import outcome_of
from towpath_testing.evaluation.gate_plan import GatePlan
from towpath_testing.evaluation.suite_file import ReadSuite
from towpath_testing.harness import Harness
from towpath_testing.missing_gates import NoGateError
from towpath_testing.provider_models import ProviderModels
from towpath_testing.recordings import AnswerRecorder, ReplayProvider
from towpath_testing.runs import HarnessGate, RunResult

INSTALLED = "site-packages"
"""A folder of packages that are installed: these are loaded once."""

LOOK_S = 0.3
"""How often a platform is asked for the gates of a run."""


class RunPlace(Protocol):
    """Runs a case once and returns what came of it; raises ProblemError where it can't, or takes too long."""

    async def run(self, case: EvaluationCase, model: str, plan: GatePlan) -> JsonObject: ...


class HarnessPlace:
    """A platform in memory for each run, with tools that are loaded anew: what a case changes, no other sees."""

    def __init__(self, suite: ReadSuite, *, recorder: AnswerRecorder | None, replayed: ReplayProvider | None) -> None:
        self._suite = suite
        self._recorder = recorder
        self._replayed = replayed

    async def try_out(self) -> None:
        """Have network, policy and tools read once; raises ProblemError with what is wrong about them."""
        with _modules_of_a_run(self._suite.tools):
            async with self._harness(""):
                pass

    async def run(self, case: EvaluationCase, model: str, plan: GatePlan) -> JsonObject:
        timeout_s = self._suite.suite.timeout_s
        with _modules_of_a_run(self._suite.tools):
            harness = self._harness(model)
            began = time.monotonic()
            async with harness as h:
                begun = await h.run(case.input, **_options(case))

                async def decide() -> None:
                    with suppress(NoGateError):  # the run has ended, or its result is waited for in vain as well
                        while True:
                            await plan.decide(await h.next_gate(timeout_s))

                async with _beside(decide()):
                    result = await begun.result(timeout_s)
        return outcome_of(result, plan.decided, time.monotonic() - began)

    def _harness(self, model: str) -> Harness:
        suite, models = self._suite, ProviderModels(model, recorder=self._recorder, replayed=self._replayed)
        network = suite.network if suite.network is not None else suite.path.parent / suite.suite.network
        return Harness(network, policy=suite.policy, tools=suite.tools, model=models)


class PlatformPlace:
    """A platform that runs, with the network that is published there and the tools of its workers."""

    def __init__(self, suite: ReadSuite, client: Client) -> None:
        self._network = suite.network_name
        self._timeout_s = suite.suite.timeout_s
        self._client = client

    async def run(self, case: EvaluationCase, model: str, plan: GatePlan) -> JsonObject:
        began = time.monotonic()
        options = _options(case) | ({"model": model} if model else {})
        accepted = await self._client.submit(self._network, case.input, **options)
        try:
            async with _beside(self._decide(accepted.run_id, plan)):
                view = await self._client.result(accepted.run_id, self._timeout_s)
        except BaseException:
            await self._client.cancel(accepted.run_id, "its evaluation gave up")
            raise
        entries = tuple([entry async for entry in self._client.events(accepted.run_id)])
        return outcome_of(RunResult(view, lambda: entries), plan.decided, time.monotonic() - began)

    async def _decide(self, run_id: UUID, plan: GatePlan) -> None:
        seen: set[UUID] = set()
        while True:
            for gate in await self._client.gates.list(root_run_id=run_id, paused=False):
                if gate.gate_id not in seen:
                    seen.add(gate.gate_id)
                    await plan.decide(HarnessGate(gate, self._resolve))
            if (await self._client.get(run_id)).status in FINAL_STATUSES:
                await asyncio.Event().wait()  # the result is being fetched; who waits for it ends this
            await asyncio.sleep(LOOK_S)

    async def _resolve(self, gate: GateView, verdict: str, reason: str, _by: str, args: JsonObject | None) -> None:
        gates = self._client.gates
        match verdict:
            case "approved":
                await gates.approve(gate.gate_id, reason=reason)
            case "denied":
                await gates.deny(gate.gate_id, reason)
            case "edit":
                await gates.edit(gate.gate_id, args or {}, reason=reason)
            case other:
                await gates.resolve(gate.gate_id, other, reason=reason)


def _options(case: EvaluationCase) -> dict[str, Any]:
    return {"labels": case.labels, **case.task}


@asynccontextmanager
async def _beside(deciding: Any) -> AsyncIterator[None]:
    """Decide gates while a run is waited for; what goes wrong there ends the wait."""
    waits, task = asyncio.current_task(), asyncio.ensure_future(deciding)
    failed: list[BaseException] = []

    def stop(ended: "asyncio.Task[None]") -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None and waits is not None:
            failed.append(error)
            waits.cancel()

    task.add_done_callback(stop)
    try:
        yield
    except asyncio.CancelledError:
        if not failed:
            raise
        if waits is not None:
            waits.uncancel()
        raise failed[0] from None
    finally:
        task.remove_done_callback(stop)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def _modules_of_a_run(tools: tuple[Path, ...]) -> Iterator[None]:
    """Forget what is imported inside from the folders of *tools*, so that the next run loads it anew."""
    before, folders = set(sys.modules), {one.parent.resolve() for one in tools}
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            place = Path(getattr(sys.modules[name], "__file__", None) or "/").resolve()
            if INSTALLED not in place.parts and not folders.isdisjoint(place.parents):
                del sys.modules[name]
