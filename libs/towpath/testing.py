"""Test agents in this process, without servers: `from towpath.testing import harness, script` (docs/testing.md).

What a script says is made by `route`, `execute_tool` and `respond`, which are those of `towpath.agents.operations`. It
needs the extra `testing`: the platform's own services decide here too.
"""

from typing import NoReturn

from towpath.extras import missing_packages

if (_missing := missing_packages("towpath_testing")) is not None:
    raise ImportError(f"{_missing.detail}. {_missing.remedy}", name=__name__)

from towpath_fabric.garbage_collector import without_collections

with without_collections():
    from towpath.agents.operations import execute_tool, execute_tools, respond, route
    from towpath.foreign_names import IMPORTS
    from towpath_readings.tool_calls import ToolCallRecord
    from towpath_testing.harness import Harness, harness
    from towpath_testing.missing_gates import NoGateError
    from towpath_testing.models import script
    from towpath_testing.provider_models import live, replay
    from towpath_testing.runs import HarnessGate, HarnessRun, RunResult

__all__ = [
    "Harness",
    "HarnessGate",
    "HarnessRun",
    "NoGateError",
    "RunResult",
    "ToolCallRecord",
    "execute_tool",
    "execute_tools",
    "harness",
    "live",
    "replay",
    "respond",
    "route",
    "script",
]


def __getattr__(name: str) -> NoReturn:
    """Say of a *name* of other frameworks what there is in its place."""
    instead = IMPORTS.get(name)
    if instead is not None:
        raise ImportError(f"towpath.testing has no {name}: {instead} (docs/guides/coming-from.md)", name=__name__)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
