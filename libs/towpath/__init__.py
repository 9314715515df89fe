"""The SDK: define tools, agents and networks; run, stream and watch them.

Importing this package costs next to nothing; what a name needs is imported when the name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towpath.agents.base import BaseAgent
    from towpath.agents.request import AgentRequest
    from towpath.client import Client
    from towpath.client.embedded import embedded
    from towpath.client.handles.run_handle import run, run_sync, submit, submit_sync
    from towpath.client.handles.sync_client import SyncClient
    from towpath.client.handles.sync_runs import SyncSubmittedRun, SyncWaitingGate
    from towpath.client.streams import WaitingGate
    from towpath.client.submitted_run import SubmittedRun
    from towpath.errors import (
        AgentError,
        DeclarationError,
        DeniedError,
        NotFoundError,
        RefusedError,
        RunFailedError,
        RunTimeoutError,
        ToolError,
        TowpathError,
        UnavailableError,
    )
    from towpath.found_platform import FoundPlatform, find_platform
    from towpath.hooks import hook
    from towpath.networks.network import Agent, Network
    from towpath.networks.policies import Policy, PolicyRule
    from towpath.networks.spec_files import load_network, load_policy
    from towpath.networks.swarms import Swarm
    from towpath.tasks.goals import Goal
    from towpath.tasks.mounts import HostMount
    from towpath.tasks.objectives import Objective, ObjectiveResult
    from towpath.tasks.plans import PlanDraft, PlanRun, call, plan
    from towpath.tasks.task import Budget
    from towpath.tools.arguments import SystemParameter
    from towpath.tools.context import ToolContext
    from towpath.tools.declaration import Tool, tool
    from towpath.tools.egress_rules import EgressLimits
    from towpath.tools.probes import DidNotHappen, Happened, Unclear
    from towpath.tools.process import ProcessResult, run_process
    from towpath.tools.sandbox import Sandbox
    from towpath.tools.secrets import Secret
    from towpath.worker import Worker
    from towpath_contracts.events.log import LogEntry, RunFinished
    from towpath_contracts.runs.views import RunView
    from towpath_contracts.tasks import RunAccepted
    from towpath_readings.stream.live import (
        RunStreamAnswer,
        RunStreamDelta,
        RunStreamError,
        RunStreamReasoning,
        RunStreamStatus,
        RunStreamStepBoundary,
        RunStreamSuperseded,
        RunStreamToolCall,
        RunStreamToolResult,
        RunStreamUsage,
        StreamEvent,
    )
    from towpath_readings.tool_calls import ToolCallRecord

_HOMES = {
    "Agent": "towpath.networks.network",
    "AgentError": "towpath.errors",
    "AgentRequest": "towpath.agents.request",
    "BaseAgent": "towpath.agents.base",
    "Budget": "towpath.tasks.task",
    "Client": "towpath.client",
    "DeclarationError": "towpath.errors",
    "DeniedError": "towpath.errors",
    "DidNotHappen": "towpath.tools.probes",
    "EgressLimits": "towpath.tools.egress_rules",
    "FoundPlatform": "towpath.found_platform",
    "Goal": "towpath.tasks.goals",
    "Happened": "towpath.tools.probes",
    "HostMount": "towpath.tasks.mounts",
    "LogEntry": "towpath_contracts.events.log",
    "Network": "towpath.networks.network",
    "NotFoundError": "towpath.errors",
    "Objective": "towpath.tasks.objectives",
    "ObjectiveResult": "towpath.tasks.objectives",
    "PlanDraft": "towpath.tasks.plans",
    "PlanRun": "towpath.tasks.plans",
    "Policy": "towpath.networks.policies",
    "PolicyRule": "towpath.networks.policies",
    "ProcessResult": "towpath.tools.process",
    "RefusedError": "towpath.errors",
    "RunAccepted": "towpath_contracts.tasks",
    "RunFailedError": "towpath.errors",
    "RunFinished": "towpath_contracts.events.log",
    "RunStreamAnswer": "towpath_readings.stream.live",
    "RunStreamDelta": "towpath_readings.stream.live",
    "RunStreamError": "towpath_readings.stream.live",
    "RunStreamReasoning": "towpath_readings.stream.live",
    "RunStreamStatus": "towpath_readings.stream.live",
    "RunStreamStepBoundary": "towpath_readings.stream.live",
    "RunStreamSuperseded": "towpath_readings.stream.live",
    "RunStreamToolCall": "towpath_readings.stream.live",
    "RunStreamToolResult": "towpath_readings.stream.live",
    "RunStreamUsage": "towpath_readings.stream.live",
    "RunTimeoutError": "towpath.errors",
    "RunView": "towpath_contracts.runs.views",
    "Sandbox": "towpath.tools.sandbox",
    "Secret": "towpath.tools.secrets",
    "StreamEvent": "towpath_readings.stream.live",
    "SubmittedRun": "towpath.client.submitted_run",
    "Swarm": "towpath.networks.swarms",
    "SyncClient": "towpath.client.handles.sync_client",
    "SyncSubmittedRun": "towpath.client.handles.sync_runs",
    "SyncWaitingGate": "towpath.client.handles.sync_runs",
    "SystemParameter": "towpath.tools.arguments",
    "Tool": "towpath.tools.declaration",
    "ToolCallRecord": "towpath_readings.tool_calls",
    "ToolContext": "towpath.tools.context",
    "ToolError": "towpath.errors",
    "TowpathError": "towpath.errors",
    "UnavailableError": "towpath.errors",
    "Unclear": "towpath.tools.probes",
    "WaitingGate": "towpath.client.streams",
    "Worker": "towpath.worker",
    "call": "towpath.tasks.plans",
    "embedded": "towpath.client.embedded",
    "find_platform": "towpath.found_platform",
    "hook": "towpath.hooks",
    "load_network": "towpath.networks.spec_files",
    "load_policy": "towpath.networks.spec_files",
    "plan": "towpath.tasks.plans",
    "run": "towpath.client.handles.run_handle",
    "run_process": "towpath.tools.process",
    "run_sync": "towpath.client.handles.run_handle",
    "submit": "towpath.client.handles.run_handle",
    "submit_sync": "towpath.client.handles.run_handle",
    "tool": "towpath.tools.declaration",
}

__all__ = [
    "Agent",
    "AgentError",
    "AgentRequest",
    "BaseAgent",
    "Budget",
    "Client",
    "DeclarationError",
    "DeniedError",
    "DidNotHappen",
    "EgressLimits",
    "FoundPlatform",
    "Goal",
    "Happened",
    "HostMount",
    "LogEntry",
    "Network",
    "NotFoundError",
    "Objective",
    "ObjectiveResult",
    "PlanDraft",
    "PlanRun",
    "Policy",
    "PolicyRule",
    "ProcessResult",
    "RefusedError",
    "RunAccepted",
    "RunFailedError",
    "RunFinished",
    "RunStreamAnswer",
    "RunStreamDelta",
    "RunStreamError",
    "RunStreamReasoning",
    "RunStreamStatus",
    "RunStreamStepBoundary",
    "RunStreamSuperseded",
    "RunStreamToolCall",
    "RunStreamToolResult",
    "RunStreamUsage",
    "RunTimeoutError",
    "RunView",
    "Sandbox",
    "Secret",
    "StreamEvent",
    "SubmittedRun",
    "Swarm",
    "SyncClient",
    "SyncSubmittedRun",
    "SyncWaitingGate",
    "SystemParameter",
    "Tool",
    "ToolCallRecord",
    "ToolContext",
    "ToolError",
    "TowpathError",
    "UnavailableError",
    "Unclear",
    "WaitingGate",
    "Worker",
    "call",
    "embedded",
    "find_platform",
    "hook",
    "load_network",
    "load_policy",
    "plan",
    "run",
    "run_process",
    "run_sync",
    "submit",
    "submit_sync",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import the public *name* on its first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        instead = _instead_of(name)
        if instead:
            raise ImportError(f"towpath has no {name}: {instead} (docs/guides/coming-from.md)", name=__name__)
        msg = f"module 'towpath' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def _instead_of(name: str) -> str:
    """Return what there is in the place of a *name* of other frameworks; empty where nothing is known of it."""
    foreign: dict[str, str] = importlib.import_module("towpath.foreign_names").IMPORTS
    return foreign.get(name, "")


def __dir__() -> list[str]:
    """List the public names too, imported or not."""
    return sorted({*globals(), *__all__})
