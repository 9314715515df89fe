"""The tools of the crash-point sweep, one of each effect class; each leaves a mark outside and does nothing else.

Run by a tool worker whose environment names the outside file.
"""

import os
from pathlib import Path
from typing import Final

from towpath import ToolContext, tool
from towpath.tools.probes import DidNotHappen, Happened
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks
from towpath_fabric.clock import wall

OUTSIDE_VARIABLE: Final = "TOWPATH_CHAOS_OUTSIDE"
"""The setting that names the outside file."""

TOOLSET: Final = "crash"


def _happen(effect_class: str, ctx: ToolContext) -> None:
    mark = ToolEffectRecord(
        execution_id=str(ctx.execution_id),
        effect_class=effect_class,
        attempt=ctx.attempt,
        at=wall().timestamp(),
        pid=os.getpid(),
        tool=ctx.tool,
    )
    append_mark(Path(os.environ[OUTSIDE_VARIABLE]), mark)


@tool(name="crash.pure", effect_class="pure", toolset=TOOLSET, timeout=3)
async def pure(n: int, ctx: ToolContext) -> dict[str, int]:
    """Return the argument; effect class pure."""
    _happen("pure", ctx)
    return {"n": n}


@tool(name="crash.idempotent", effect_class="idempotent", toolset=TOOLSET, timeout=3)
async def idempotent(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; effect class idempotent."""
    _happen("idempotent", ctx)
    return {"n": n}


@tool(name="crash.irreversible", effect_class="irreversible", toolset=TOOLSET, timeout=3)
async def irreversible(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; effect class irreversible."""
    _happen("irreversible", ctx)
    return {"n": n}


def _happened(n: int, ctx: ToolContext) -> Happened | DidNotHappen:
    """Look into the outside file; the worker that had the call before is dead, so no worker runs it any more."""
    done = any(mark.execution_id == str(ctx.execution_id) for mark in read_marks(Path(os.environ[OUTSIDE_VARIABLE])))
    return Happened({"n": n}) if done else DidNotHappen()


@tool(name="crash.reconcilable", effect_class="reconcilable", probe=_happened, toolset=TOOLSET, timeout=3)
async def reconcilable(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark that the probe can find; effect class reconcilable."""
    _happen("reconcilable", ctx)
    return {"n": n}
