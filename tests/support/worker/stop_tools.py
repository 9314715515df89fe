"""Tools to be stopped: slow ones of every class, in a coroutine, in a thread and in a program of their own."""

import asyncio
import os
import sys
import time
from pathlib import Path

from towpath import DidNotHappen, Happened, ToolContext, tool
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks

OUTSIDE = Path(os.environ["TOWPATH_TEST_EFFECTS"])
PAUSE_S = 0.15
"""Before and after the mark, so that a cancel hits both sides of it."""


def _mark(ctx: ToolContext, effect_class: str) -> None:
    mark = ToolEffectRecord(
        execution_id=str(ctx.execution_id),
        effect_class=effect_class,
        attempt=ctx.attempt,
        at=time.time(),
        pid=os.getpid(),
        tool=ctx.tool,
    )
    append_mark(OUTSIDE, mark)


async def _slowly(ctx: ToolContext, effect_class: str) -> str:
    await asyncio.sleep(PAUSE_S)
    _mark(ctx, effect_class)
    await asyncio.sleep(PAUSE_S)
    return "done"


async def look(ctx: ToolContext) -> Happened | DidNotHappen:
    """Look for the mark."""
    left = any(mark.execution_id == str(ctx.execution_id) for mark in read_marks(OUTSIDE))
    return Happened("found") if left else DidNotHappen()


@tool(name="stop.pure", toolset="stops", effect_class="pure", timeout=5)
async def pure(n: int, ctx: ToolContext) -> str:
    """Look slowly."""
    return await _slowly(ctx, "pure")


@tool(name="stop.idempotent", toolset="stops", effect_class="idempotent", timeout=5)
async def idempotent(n: int, ctx: ToolContext) -> str:
    """Do what counts once."""
    return await _slowly(ctx, "idempotent")


@tool(name="stop.reconcilable", toolset="stops", effect_class="reconcilable", probe=look, timeout=5)
async def reconcilable(n: int, ctx: ToolContext) -> str:
    """Do what can be looked up."""
    return await _slowly(ctx, "reconcilable")


@tool(name="stop.irreversible", toolset="stops", timeout=5)
async def irreversible(n: int, ctx: ToolContext) -> str:
    """Do what can't be undone."""
    return await _slowly(ctx, "irreversible")


@tool(name="stop.thread", toolset="stops", timeout=5)
def thread(n: int, ctx: ToolContext) -> str:
    """Do what can't be undone, in a thread that looks whether it should stop."""
    if ctx.stop.wait(PAUSE_S):
        return "stopped before it did anything"
    _mark(ctx, "irreversible")
    time.sleep(PAUSE_S)
    return "done"


@tool(name="stop.wait", toolset="stops", timeout=60)
async def wait(n: int, ctx: ToolContext) -> str:
    """Leave a mark, then take long enough for everything around to break."""
    _mark(ctx, "irreversible")
    await asyncio.sleep(1.5)
    return "done"


FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "300"])
open(sys.argv[1] + ".new", "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(300)
"""


@tool(name="stop.program", toolset="programs", timeout=60)
async def program(n: int, ctx: ToolContext) -> str:
    """Run a program that starts another one."""
    await ctx.run(sys.executable, "-c", FAMILY, str(OUTSIDE.with_name("pids")))
    return "done"


@tool(name="stop.stuck", toolset="stuck", effect_class="idempotent", timeout="500ms")
def stuck(n: int, ctx: ToolContext) -> str:
    """Block for longer than anybody waits, whatever it is told."""
    release = OUTSIDE.with_name("release")
    while not release.exists():
        time.sleep(0.05)
    return "late"


@tool(name="stop.large", toolset="large", effect_class="pure", timeout=30)
async def large(n: int) -> str:
    """Return ten megabytes."""
    return "x" * 10_000_000
