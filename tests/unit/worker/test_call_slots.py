"""Which runs a worker is busy for: those of its calls, and those above them as the calls' tickets attest them."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import EffectClass, ToolInvocation
from towpath_worker.app.call import CallSlots, WorkerCall

RUN, ROOT, OTHER = uuid4(), uuid4(), uuid4()


def busy_for(run: JsonObject | None, **envelope: Any) -> set[UUID]:
    invocation = ToolInvocation(
        execution_id=uuid4(), attempt=1, run_id=RUN, project="shop", toolset="orders", tool="pay", args={},
        effect_class=EffectClass.PURE, timeout_ms=1_000, ticket="", run=run, **envelope,
    )  # fmt: skip
    slots = CallSlots(1, asyncio.Event())
    slots.occupy(WorkerCall(invocation=invocation, deliveries=[]))
    return slots.runs()


async def test_a_call_keeps_its_run_busy_and_the_attested_one_above_it_whatever_its_envelope_says() -> None:
    assert busy_for({"root_run_id": str(ROOT)}) == {RUN, ROOT}
    assert busy_for({"root_run_id": str(ROOT)}, root_run_id=OTHER) == {RUN, ROOT}
    assert busy_for({}, root_run_id=OTHER) == {RUN}


@pytest.mark.parametrize("run", [None, {}, *({"root_run_id": said} for said in (None, 7, "", "x", [], {}))])
async def test_what_names_no_run_keeps_none_busy(run: JsonObject | None) -> None:
    assert busy_for(run) == {RUN}
