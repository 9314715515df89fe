"""`harness`: a network, its policy and its tools on a platform in this process, for the length of a block.

Nothing is started and nothing is left behind: no server, no port, no file. A run takes the steps that it takes on a
platform, with the same events, gates, limits and refusals; only the model is the test's.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self, Unpack
from uuid import UUID

from towpath.client.resources import spec_json
from towpath.declared_places import checks_call, declared_place
from towpath.errors import DeclarationError, RefusedError, TowpathError
from towpath.hooks import Hook
from towpath.networks.network import Agent, Network, network_of, spec_from
from towpath.networks.policies import Policy, PolicyRule
from towpath.networks.spec_files import PolicyFile, load_policy, locate_policy_refusal, locate_refusal
from towpath.tasks.task import TaskKeywords, task_of
from towpath.toolbox import WorkerTools, collect, load_module
from towpath.tools.declaration import AnyTool, Tool, seconds
from towpath.tools.functions import underlying_function
from towpath_contracts import rpc, subjects
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.runs.views import CancelRun, GateView, GetRun, ListGates, ResolveGate, RunView
from towpath_contracts.tasks import RunAccepted
from towpath_fabric.garbage_collector import RareCollections
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_testing.clock import HarnessClock
from towpath_testing.missing_gates import NoGateError, reason_for_no_gate
from towpath_testing.models import ModelFunction, ModelScript
from towpath_testing.platform import CALLER, PROJECT, MemoryPlatform
from towpath_testing.project_parts import is_name, project_parts
from towpath_testing.provider_models import ProviderModels
from towpath_testing.refusals import OR_CORRECT, error_in_test, placed_in_program, timeout_in_test, with_tools_to_give
from towpath_testing.runs import RETURNED, HarnessGate, HarnessRun, RunResult
from towpath_testing.sync import SyncHarness, waiting_in

AnyPolicy = str | Path | Policy | PolicyFile | JsonObject | Iterable[JsonObject] | Iterable[PolicyRule] | None
AnyNetwork = str | Path | Agent | Network | NetworkSpec | JsonObject
AnyTools = Iterable[AnyTool | ModuleType | str | Path]
AnyModel = ModelScript | ModelFunction | ProviderModels | str

_rare_collections = RareCollections()
"""Of all harnesses in the process: a run makes thousands of objects, hardly one of them in a cycle."""


class HarnessLog:
    """Takes what the services say: only what should never happen reaches the log of the test."""

    def __init__(self) -> None:
        self._log = logging.getLogger("towpath.testing")

    def debug(self, _text: str, **_more: Any) -> None:
        return

    info = warning = debug

    def error(self, text: str, **more: Any) -> None:
        self._log.error("%s %s", text, more, exc_info=more.pop("exc_info", None))


def _check_model(model: object) -> None:
    """Raise DeclarationError, with the line of the test, for what stands for no model."""
    if model is None or isinstance(model, ModelScript | ProviderModels | str) or callable(model):
        return
    many = isinstance(model, list | tuple)
    meant = "decisions are played by model=script([…])" if many else "write model=script([…]), a function, or a model"
    msg = f"{declared_place()}: model is {'a list' if many else repr(model)}: {meant}"
    raise DeclarationError(msg)


class Harness:
    """A platform in memory; open it with `async with`."""

    def __init__(
        self,
        network: AnyNetwork,
        *,
        policy: AnyPolicy = None,
        tools: AnyTools = (),
        model: AnyModel | None = None,
    ) -> None:
        _check_model(model)
        self._opened_at = declared_place()
        self._network = network
        self._spec = spec_from(spec_json(network))
        self._policy = read_policy_text(_policy_text(policy), _policy_source(policy))
        if self._policy.read.problems:
            raise _refused_policy(self._policy.read.problems, policy)
        self._lack = _why_no_rules(policy) if not self._policy.read.rules else ""
        self._toolbox, self._hooks = _collected(tools)
        self._model = ProviderModels(model) if isinstance(model, str) else model
        # A network's scripts lie beside it, as in a project.
        self._scripts = Path(network).parent if isinstance(network, str | Path) else None
        self._platform: MemoryPlatform | None = None
        self._runner: asyncio.Runner | None = None
        self._changed = asyncio.Event()
        self._seen: set[UUID] = set()
        self._waiting: tuple[UUID, ...] | None = None
        self._begun: list[UUID] = []
        self._collecting = contextlib.ExitStack()
        self.clock = HarnessClock(self._look)

    async def __aenter__(self) -> Self:
        """Publish the network, put the policy in force, and begin to work."""
        self.clock.open()
        self._collecting.enter_context(_rare_collections.block())
        try:
            function = None if isinstance(self._model, ModelScript) else self._model
            self._platform = MemoryPlatform(self._toolbox, self._hooks, function, HarnessLog(), self._scripts)
            self._platform.apply(self._policy)
            self._platform.publish(self._spec)
            self._platform.bus.listen(subjects.RUN_EVENT_ALL, self._on_events)
            await self._platform.start()
        except BaseException as error:  # whatever it is, such as a cancellation: no clock and no task stays behind
            await self._close()
            if isinstance(error, ProblemError):
                raise self._refusal(error) from None
            raise
        return self

    def _refusal(self, error: ProblemError) -> TowpathError:
        """Return why the platform could not be opened; what is wrong with a network's file with its lines."""
        refused = error_in_test(error.problem)
        if not isinstance(refused, RefusedError):
            return refused
        if isinstance(self._network, str | Path):
            return with_tools_to_give(locate_refusal(self._network, refused), (), OR_CORRECT)
        return placed_in_program(with_tools_to_give(refused, self._lacking()), self._opened_at)

    def _lacking(self) -> list[str]:
        """Return the names of the functions that the network is equipped with and the harness was not given."""
        network = network_of(self._network) if isinstance(self._network, Agent) else self._network
        agents = network.agents if isinstance(network, Network) else ()
        wanted = [tool for one in agents if isinstance(one, Agent) for tool in one.tools if isinstance(tool, Tool)]
        lacking = [tool for tool in wanted if self._toolbox.find(tool.name, tool.spec.toolset) is None]
        return list(dict.fromkeys(underlying_function(tool.function).__name__ for tool in lacking))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything that still runs."""
        await self._close()

    def __enter__(self) -> SyncHarness:
        """Open it for a test without asyncio."""
        self._runner = runner = asyncio.Runner()
        try:
            waiting_in(runner)(self.__aenter__())
        except BaseException:
            runner.close()
            raise
        return SyncHarness(self, runner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything that still runs."""
        if self._runner is not None:
            with self._runner as runner:
                runner.run(self._close())

    async def _close(self) -> None:
        try:
            if self._platform is not None:
                await self._platform.close()
        finally:
            self._collecting.close()
            self.clock.close()

    @property
    def _open(self) -> MemoryPlatform:
        if self._platform is None:
            msg = "the harness is not open: async with harness(…) as h, or without asyncio with harness(…) as h"
            raise RuntimeError(msg)
        return self._platform

    async def run(self, message: str = "", **options: Unpack[TaskKeywords]) -> HarnessRun:
        """Begin a run; *options* are those of a task (`goal`, `budget`, `labels`, `deadline`, …)."""
        wanted: dict[str, Any] = {**options}
        if isinstance(self._model, ModelScript):
            wanted.setdefault("script", self._model.entries)
        if isinstance(self._model, ProviderModels) and self._model.model:
            wanted.setdefault("model", self._model.model)
        task = task_of(self._spec.name, message, wanted, without_end=True)
        accepted = await self._ask_subject(subjects.task_submit(CALLER), task, RunAccepted)
        self._begun.append(accepted.run_id)
        return HarnessRun(accepted.run_id, self.result_of, self._cancel)

    async def next_gate(self, timeout: str | float = "10s") -> HarnessGate:
        """Return the next gate that opens, or has opened and was not returned yet.

        Raises NoGateError, a TimeoutError: at once where every run has ended, else after *timeout*.
        """
        limit_s = seconds(timeout, "timeout")
        scope = asyncio.timeout(limit_s)
        try:
            async with scope:
                while True:
                    changed = self._changed  # taken before the look, so that nothing is missed between it and the wait
                    gate = await self._next_unseen()
                    if gate is not None:
                        return HarnessGate(gate, self._resolve)
                    if self._begun and not self._open.any_run_goes_on():
                        break
                    await changed.wait()
        except TimeoutError:
            if not scope.expired():
                raise
            msg = f"no gate opened within {limit_s:g} s: {await self._reason_for_no_gate()}"
            raise NoGateError(msg) from None
        msg = f"no gate: {await self._reason_for_no_gate()}"
        raise NoGateError(msg)

    async def _next_unseen(self) -> GateView | None:
        """Return the oldest gate that waits and was not returned yet.

        It is taken before it is asked for: of many that wait here each asks for its own, and none for all.
        """
        for gate_id in self._waiting_gates():
            if gate_id in self._seen:
                continue
            self._seen.add(gate_id)
            try:
                page = await self._ask(rpc.LIST_GATES, ListGates(project=PROJECT, gate_id=gate_id))
            except BaseException:  # whatever it is, such as the end of the wait: the gate is there for the next
                self._seen.discard(gate_id)
                self._on_events()
                raise
            if page.gates:  # else it was closed meanwhile
                found: GateView = page.gates[0]
                return found
        return None

    def _waiting_gates(self) -> tuple[UUID, ...]:
        """Return the gates that wait and were not returned yet, the oldest first; looked up once after each event."""
        if self._waiting is None:
            self._waiting = tuple(one for one in self._open.waiting_gates() if one not in self._seen)
        return self._waiting

    async def _reason_for_no_gate(self) -> str:
        """Say what the last run that goes on does, or where all have ended what the last came to."""
        if not self._begun:
            return "no run was begun"
        going_on = [run_id for run_id in self._begun if not self._open.has_ended(run_id)]
        run_id = (going_on or self._begun)[-1]
        view = await self._ask(rpc.GET_RUN, GetRun(project=PROJECT, run_id=run_id))
        return reason_for_no_gate(view, self._open.log_of(run_id)(), len(going_on or self._begun), self._lack)

    async def open_gates(self) -> list[HarnessGate]:
        """Return every gate that waits, the oldest first."""
        return [HarnessGate(gate, self._resolve) for gate in await self._pending()]

    async def result_of(self, run_id: UUID, timeout: str | float) -> RunResult:
        """Return what a run came to, once it has ended."""
        limit_s = seconds(timeout, "timeout")
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    changed = self._changed
                    if self._open.has_ended(run_id):
                        await self._open.tell_ends()
                        view: RunView = await self._ask(rpc.GET_RUN, GetRun(project=PROJECT, run_id=run_id))
                        result = RunResult(view, self._open.log_of(run_id), self._lack)
                        RETURNED.append(result)
                        return result
                    await changed.wait()
        except TimeoutError:
            view = await self._ask(rpc.GET_RUN, GetRun(project=PROJECT, run_id=run_id))
            gates = self._open.any_gate_waits()
            raise timeout_in_test(view, limit_s, gates=gates, awaited=self._runner is None) from None

    async def _pending(self) -> tuple[GateView, ...]:
        if not self._open.any_gate_waits():
            return ()
        page = await self._ask(rpc.LIST_GATES, ListGates(project=PROJECT))
        gates = list(page.gates)
        while page.next_after is not None:
            page = await self._ask(rpc.LIST_GATES, ListGates(project=PROJECT, after=page.next_after))
            gates += page.gates
        return tuple(gates)

    async def _resolve(self, gate: GateView, verdict: str, reason: str, by: str, args: JsonObject | None) -> None:
        method = rpc.RESOLVE_GATE if gate.approval_id is None else rpc.RESOLVE_APPROVAL
        roles = {"approver", "operator", str(gate.detail.get("role") or "approver")}
        given: dict[str, Any] = {"verdict": verdict, "reason": reason, "actor": by, "args": args}
        places = {"project": PROJECT, "gate_id": gate.gate_id, "approval_id": gate.approval_id}
        await self._ask(method, ResolveGate.model_validate({**places, **given, "roles": tuple(sorted(roles))}))

    async def _cancel(self, run_id: UUID, reason: str) -> None:
        await self._ask(rpc.CANCEL_RUN, CancelRun(project=PROJECT, run_id=run_id, actor=CALLER, reason=reason))

    async def _ask(self, method: rpc.RpcMethod, request: Any) -> Any:
        return await self._ask_subject(method.subject, request, method.answer)

    async def _ask_subject(self, subject: str, request: Any, answer: Any) -> Any:
        try:
            return await self._open.bus.request_subject(subject, request, answer)
        except ProblemError as error:
            raise error_in_test(error.problem) from None

    async def _look(self) -> None:
        await self._open.look()

    def _on_events(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        self._waiting = None
        changed.set()


def _why_no_rules(policy: AnyPolicy) -> str:
    return "the harness was given no policy" if policy is None else "the policy that the harness was given has none"


def _policy_text(policy: AnyPolicy) -> str:
    if policy is None:
        return "kind: Policy\nrules: []\n"
    if isinstance(policy, Policy):
        return policy.to_yaml()
    if isinstance(policy, PolicyFile):
        return policy.text
    if isinstance(policy, str | Path):
        return load_policy(policy).text if _is_path(policy) else str(policy)
    if isinstance(policy, dict):
        return json.dumps(policy)
    rules = list(policy)
    written = [rule.to_json() if isinstance(rule, PolicyRule) else rule for rule in rules]
    return json.dumps({"kind": "Policy", "rules": written})


def _refused_policy(faults: Iterable[ProblemDetail], policy: AnyPolicy) -> RefusedError:
    """Return the refusal of *policy*; what is wrong with one from a file with `file:line`, as with a network.

    One that was written in Python is told by the line that declares it: nobody sees the text that was made of it.
    """
    found = tuple(faults)
    refused = problem("policy_invalid", tell_faults(found), errors=found)
    return RefusedError(locate_policy_refusal(PolicyFile(text="", source=_policy_source(policy)), refused))


def _policy_source(policy: AnyPolicy) -> str:
    """Return where *policy* was written: its file, the line of a program, or nothing."""
    file = policy.to_file() if isinstance(policy, Policy) else policy
    return file.source if isinstance(file, PolicyFile) else str(file) if _is_path(file) else ""


def _is_path(policy: AnyPolicy) -> bool:
    return isinstance(policy, Path) or (isinstance(policy, str) and "\n" not in policy)


def _collected(tools: AnyTools) -> tuple[WorkerTools, tuple[Hook, ...]]:
    found: list[AnyTool] = []
    hooks: list[Hook] = []
    for one in tools:
        if isinstance(one, Tool):
            found.append(one)
            continue
        of_module, of_hooks = collect([one if isinstance(one, ModuleType) else _loaded(str(one))])
        found += of_module
        hooks += of_hooks
    return WorkerTools(found), tuple(hooks)


def _loaded(name: str) -> ModuleType:
    try:
        return load_module(name)
    except DeclarationError as error:
        if not isinstance(error.__cause__, ModuleNotFoundError):
            raise
        msg = f"{error}. tools= takes the functions themselves, too: tools=[FUNCTION], without quotes"
        raise DeclarationError(msg) from error


@checks_call
def harness(
    network: AnyNetwork | None = None, *, policy: AnyPolicy = None, tools: AnyTools = (), model: AnyModel | None = None
) -> Harness:
    """Return a platform in memory for *network*, to be opened with `async with`.

    Without a network, or with its name alone, it is that of the project in which the test lies, with the project's
    policy and tools unless others are given.
    """
    if network is None or is_name(network):
        found = project_parts(str(network or ""), declared_place())
        network = found.network
        policy = found.policy if policy is None else policy
        tools = tuple(tools) or found.tools
    return Harness(network, policy=policy, tools=tools, model=model)
