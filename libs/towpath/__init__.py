"""The SDK: define tools, agents and networks; run, stream and watch them.

Importing this package costs next to nothing; what a name needs is imported when the name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towpath.agents.base import BaseAgent
    from towpath.agents.request import AgentRequest
    from towpath.arguments import System
    from towpath.client import Client
    from towpath.context import ToolContext
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
    from towpath.files import load_network, load_policy
    from towpath.goals import Goal
    from towpath.hooks import hook
    from towpath.mounts import HostMount
    from towpath.networks import Agent, Network
    from towpath.objectives import AgentRunResult, Objective
    from towpath.plans import PlanDraft, PlanRun, call, plan
    from towpath.probes import DidNotHappen, Happened, Unclear
    from towpath.process import ProcessResult, run_process
    from towpath.run_handle import run
    from towpath.secrets import Secret
    from towpath.swarms import Swarm
    from towpath.tools import Tool, tool

_HOMES = {
    "Agent": "towpath.networks",
    "AgentError": "towpath.errors",
    "AgentRequest": "towpath.agents.request",
    "AgentRunResult": "towpath.objectives",
    "BaseAgent": "towpath.agents.base",
    "Client": "towpath.client",
    "DeclarationError": "towpath.errors",
    "DeniedError": "towpath.errors",
    "DidNotHappen": "towpath.probes",
    "Goal": "towpath.goals",
    "Happened": "towpath.probes",
    "HostMount": "towpath.mounts",
    "Network": "towpath.networks",
    "NotFoundError": "towpath.errors",
    "Objective": "towpath.objectives",
    "PlanDraft": "towpath.plans",
    "PlanRun": "towpath.plans",
    "ProcessResult": "towpath.process",
    "RefusedError": "towpath.errors",
    "RunFailedError": "towpath.errors",
    "RunTimeoutError": "towpath.errors",
    "Secret": "towpath.secrets",
    "Swarm": "towpath.swarms",
    "System": "towpath.arguments",
    "Tool": "towpath.tools",
    "ToolContext": "towpath.context",
    "ToolError": "towpath.errors",
    "TowpathError": "towpath.errors",
    "UnavailableError": "towpath.errors",
    "Unclear": "towpath.probes",
    "call": "towpath.plans",
    "hook": "towpath.hooks",
    "load_network": "towpath.files",
    "load_policy": "towpath.files",
    "plan": "towpath.plans",
    "run": "towpath.run_handle",
    "run_process": "towpath.process",
    "tool": "towpath.tools",
}

__all__ = [
    "Agent",
    "AgentError",
    "AgentRequest",
    "AgentRunResult",
    "BaseAgent",
    "Client",
    "DeclarationError",
    "DeniedError",
    "DidNotHappen",
    "Goal",
    "Happened",
    "HostMount",
    "Network",
    "NotFoundError",
    "Objective",
    "PlanDraft",
    "PlanRun",
    "ProcessResult",
    "RefusedError",
    "RunFailedError",
    "RunTimeoutError",
    "Secret",
    "Swarm",
    "System",
    "Tool",
    "ToolContext",
    "ToolError",
    "TowpathError",
    "UnavailableError",
    "Unclear",
    "call",
    "hook",
    "load_network",
    "load_policy",
    "plan",
    "run",
    "run_process",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import the public *name* on its first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        msg = f"module 'towpath' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names too, imported or not."""
    return sorted({*globals(), *__all__})
