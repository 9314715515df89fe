"""What two replicas of a TAS agree on: the version of the matrix, rates of a project, costs of a run."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from tests.support.service_process import ServiceProcess
from tests.support.tas.tas_caller import ARGS, OPEN, TasCaller
from tests.support.tas.tas_running import Running, Shared, shared_tas, tas
from tests.support.waiting import eventually

from towpath_contracts import rpc
from towpath_contracts.tools.calls import ToolRequest
from towpath_fabric.ids import new_run_id

__all__ = ["shared_tas", "tas"]

CLOSED = "kind: Policy\nrules: []"
LONG_S = 31 * 86_400
"""A window that no test outlives."""


@pytest.fixture(scope="module")
def replica(shared_tas: Shared) -> Iterator[ServiceProcess]:
    """A second TAS beside the module's."""
    with shared_tas.start() as process:
        asyncio.run(process.wait_ready())
        yield process


async def decisions(service: ServiceProcess) -> int:
    """How many calls a replica has decided."""
    found = re.findall(r"^towpath_tas_write_seconds_count (\S+)", await service.metrics(), re.MULTILINE)
    return int(float(found[0])) if found else 0


async def verdicts(caller: TasCaller, requests: list[ToolRequest]) -> list[str]:
    """Ask for calls all at once; return what came of each."""
    await asyncio.gather(*(caller.put(request) for request in requests))
    keys = [request.execution_id for request in requests]
    await eventually(lambda: all(key in caller.facts or key in caller.invocations for key in keys))
    return ["allow" if key in caller.invocations else caller.facts[key][0]["denial"]["violation_type"] for key in keys]


async def test_every_replica_decides_by_the_version_that_was_applied_last(
    tas: Running, replica: ServiceProcess
) -> None:
    """A second may pass by the design; in truth no call that comes after the answer sees an older version."""
    caller = tas.caller
    before = [await decisions(one) for one in (tas.service, replica)]
    for turn in range(100):
        text, expected = ((CLOSED, "permission_denied"), (OPEN, "allow"))[turn % 2]
        await caller.apply(text)
        requests = [caller.request("orders.find") for _ in range(6)]
        assert set(await verdicts(caller, requests)) == {expected}
        after = [await decisions(one) for one in (tas.service, replica)]
        if turn >= 5 and all(new - old >= 3 for old, new in zip(before, after, strict=True)):
            return
    raise AssertionError(f"one replica decided nothing: {before}, {after}")


async def test_a_limit_of_a_run_holds_for_it_and_all_runs_below_it_together(tas: Running) -> None:
    """A child is no way around `max_calls_per_run`: what its root and the others have used, it finds used up."""
    caller = tas.caller
    await caller.apply(OPEN.replace("effect: allow", "effect: allow, max_calls_per_run: 3"))
    root = new_run_id()
    assert await verdicts(caller, [caller.request("orders.find", run_id=root)]) == ["allow"]
    below = [caller.request("orders.find", root_run_id=root) for _ in range(4)]
    assert sorted(await verdicts(caller, below)) == ["allow", "allow", "limit_exceeded", "limit_exceeded"]
    assert await verdicts(caller, [caller.request("orders.find", run_id=root)]) == ["limit_exceeded"]
    assert await verdicts(caller, [caller.request("orders.find")]) == ["allow"], "another run has its own"


async def test_a_rate_holds_for_the_whole_project_and_all_replicas(tas: Running, replica: ServiceProcess) -> None:
    caller = tas.caller
    await caller.apply(OPEN.replace("effect: allow", f"effect: allow, rate: {{calls: 7, per_s: {LONG_S}}}"))
    found = await verdicts(caller, [caller.request("orders.find") for _ in range(30)])
    assert (found.count("allow"), found.count("limit_exceeded")) == (7, 23)
    assert await verdicts(caller, [caller.request("orders.find")]) == ["limit_exceeded"]
    assert await decisions(replica) > 0
    fields = {"project": caller.project, "network": "support", "agent_key": "billing", "tool": "orders.find"}
    dry = await caller.ask(rpc.CHECK_ACCESS, **fields, args=ARGS)
    assert (dry.verdict, dry.violation_type) == ("deny", "limit_exceeded"), "a dry run sees the window of now"
    dry = await caller.ask(rpc.CHECK_ACCESS, **fields, args=ARGS, rates=False)
    assert dry.verdict == "allow", "what others have used says nothing of the matrix"


async def test_a_rate_begins_again_with_every_window(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(OPEN.replace("effect: allow", "effect: allow, rate: {calls: 1, per_s: 1}"))
    listed: list[str] = []
    while listed.count("allow") < 2 or "limit_exceeded" not in listed:
        assert len(listed) < 5_000
        listed += await verdicts(caller, [caller.request("orders.find") for _ in range(3)])


async def test_a_call_that_waits_for_a_person_uses_the_rate_once(tas: Running) -> None:
    caller = tas.caller
    limited = f"effect: require_approval, rate: {{calls: 1, per_s: {LONG_S}}}"
    await caller.apply(OPEN.replace("effect: allow", limited))
    first = await caller.put(caller.request("orders.refund"))
    await caller.fact(first, "approval.required")
    await caller.again(first)
    await caller.fact(first, "approval.required", times=2)
    assert await verdicts(caller, [caller.request("orders.refund")]) == ["limit_exceeded"]


@pytest.mark.parametrize(("spent", "verdict"), [(None, "limit_exceeded"), (0.49, "allow"), (0.5, "limit_exceeded")])
async def test_a_rule_about_costs_lets_nothing_through_that_it_does_not_know(
    tas: Running, spent: float | None, verdict: str
) -> None:
    caller = tas.caller
    await caller.apply(OPEN.replace("effect: allow", "effect: allow, max_cost_per_run_usd: 0.50"))
    request = caller.request("orders.find", spent_usd=spent)
    assert await verdicts(caller, [request]) == [verdict]
