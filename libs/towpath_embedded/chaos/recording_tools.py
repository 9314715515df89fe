"""Tools that stand in for a network's own: same name, schema and effect class, and all they do is leave a mark.

A call appends its mark before anything else can go wrong with it; without the two settings the module offers
nothing. A tool worker imports it like any module of tools.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from towpath import ToolContext
from towpath.tools.arguments import ToolArguments
from towpath.tools.declaration import Tool
from towpath.tools.probes import DidNotHappen, Happened, Probe, Probed
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks
from towpath_fabric.clock import wall

TOOLS_VARIABLE = "TOWPATH_CHAOS_TOOLS"
OUTSIDE_VARIABLE = "TOWPATH_CHAOS_OUTSIDE"
PAUSE_S = 0.03
"""Before and after the mark, so that a kill can fall on either side of it."""


class AnyArguments(ToolArguments):
    """Takes whatever the platform has checked against the schema."""

    __slots__ = ()

    def bind(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return *args* as one argument."""
        return {"args": args}


def recording_tool(spec: ToolSpec, place: Path) -> Tool[..., Any]:
    """Return a tool as *spec* describes it, which records its effects in *place*."""

    async def record(args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        await asyncio.sleep(PAUSE_S)
        mark = ToolEffectRecord(
            execution_id=str(context.execution_id),
            effect_class=str(spec.effect_class),
            attempt=context.attempt,
            at=wall().timestamp(),
            pid=os.getpid(),
            key=context.idempotency_key,
            tool=spec.name,
        )
        await asyncio.to_thread(append_mark, place, mark)
        await asyncio.sleep(PAUSE_S)
        return _result(spec, args)

    def look(args: dict[str, Any], context: ToolContext) -> Probed:
        """Look into the file, as the probe of the real tool looks into the real world."""
        done = any(mark.execution_id == str(context.execution_id) for mark in read_marks(place))
        return Happened(_result(spec, args)) if done else DidNotHappen()

    reconcilable = spec.effect_class is EffectClass.RECONCILABLE
    arguments = AnyArguments(
        model=BaseModel, schema=spec.parameters, names=(), system=spec.system_params, context="context"
    )
    return Tool(record, spec, arguments, Probe(look, frozenset({"args"}), "context") if reconcilable else None)


def _result(spec: ToolSpec, args: dict[str, Any]) -> dict[str, Any]:
    return {"recorded": spec.name, "args": args}


def _tools() -> dict[str, Tool[..., Any]]:
    listed, place = os.environ.get(TOOLS_VARIABLE), os.environ.get(OUTSIDE_VARIABLE)
    if not listed or not place:
        return {}
    specs = [ToolSpec.model_validate(entry) for entry in json.loads(Path(listed).read_text("utf-8"))]
    return {f"tool_{number}": recording_tool(spec, Path(place)) for number, spec in enumerate(specs)}


globals().update(_tools())  # a worker offers what stands in a module
