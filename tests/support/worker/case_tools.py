"""One tool per worker, of the effect class and for the crash that `TOWPATH_TEST_CASE` names: `<class>.<place>`.

Every call leaves a mark outside before it goes on. In a case `inside` the process kills itself right after its first
mark; the probe looks whether there is one.
"""

import asyncio
import os
import signal
from pathlib import Path

from towpath import DidNotHappen, Happened, ToolContext, tool
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks

CASE = os.environ["TOWPATH_TEST_CASE"]
EFFECT_CLASS, _, PLACE = CASE.partition(".")
OUTSIDE = Path(os.environ["TOWPATH_TEST_EFFECTS"])


def happened(ctx: ToolContext) -> bool:
    return any(mark.execution_id == str(ctx.execution_id) for mark in read_marks(OUTSIDE))


async def look(n: int, ctx: ToolContext) -> Happened | DidNotHappen:
    """Look for the mark."""
    return Happened({"n": n, "found": True}) if happened(ctx) else DidNotHappen()


@tool(
    name=f"case.{CASE}",
    toolset=CASE.replace(".", "_"),
    effect_class=EFFECT_CLASS,
    timeout=2,
    probe=look if EFFECT_CLASS == "reconcilable" else None,
)
async def act(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark."""
    first = not happened(ctx)
    append_mark(
        OUTSIDE,
        ToolEffectRecord(execution_id=str(ctx.execution_id), effect_class=EFFECT_CLASS, attempt=ctx.attempt, tool=CASE),
    )
    if PLACE == "inside" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0)
    return {"n": n}
