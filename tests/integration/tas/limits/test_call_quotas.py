"""A project's quota of tool calls a minute at two replicas: how many pass together, and what the others are told."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.service_process import ServiceProcess
from tests.support.tas.tas_caller import OPEN, TasCaller, query
from tests.support.tas.tas_running import Running, Shared, audit_holds, shared_tas, tas
from tests.support.waiting import eventually

from towpath_contracts.facts import SOURCE_FACTS
from towpath_contracts.tools.calls import ToolRequest
from towpath_fabric.ids import new_run_id

__all__ = ["audit_holds", "shared_tas", "tas"]

LIMIT = 7
CALLS = 30
SET = (
    "INSERT INTO runs.project_quota (project, tool_calls_per_minute, set_by, set_at) VALUES ($1, $2, 'ann', now())"
    " ON CONFLICT (project) DO UPDATE SET tool_calls_per_minute = excluded.tool_calls_per_minute"
)
BEGIN = "UPDATE tas.rate_count SET window_no = window_no - 1 WHERE project = $1 AND rule = 'quota of calls'"
COUNTED = "SELECT used, postponed FROM tas.rate_count WHERE project = $1 AND rule = 'quota of calls'"
FENCED = "INSERT INTO tas.fence (run_id, project, fence) VALUES ($1, $2, 9)"
MINUTE = "SELECT date_trunc('minute', clock_timestamp()) AS minute"


@pytest.fixture(scope="module")
def replica(shared_tas: Shared) -> Iterator[ServiceProcess]:
    """A second TAS beside the module's."""
    with shared_tas.start() as process:
        asyncio.run(process.wait_ready())
        yield process


class Quota:
    """The quota of the test's project, and the minute in which all of it is to happen."""

    def __init__(self, running: Running) -> None:
        self.dsn, self.project = running.dsn, running.caller.project

    async def set(self, calls: int | None) -> None:
        await query(self.dsn, SET, self.project, calls)

    async def begin_anew(self) -> None:
        """Let the window that is counted be one that is over."""
        await query(self.dsn, BEGIN, self.project)

    async def counted(self) -> tuple[int, int]:
        [row] = await query(self.dsn, COUNTED, self.project)
        return row["used"], row["postponed"]

    async def minute(self) -> datetime:
        [row] = await query(self.dsn, MINUTE)
        found: datetime = row["minute"]
        return found


async def decided(caller: TasCaller, requests: list[ToolRequest]) -> tuple[list[UUID], dict[UUID, datetime]]:
    """Ask for calls all at once; return those that were sent, and until when the others are postponed."""
    await asyncio.gather(*(caller.put(request) for request in requests))
    keys = [request.execution_id for request in requests]
    await eventually(lambda: all(key in caller.facts or key in caller.invocations for key in keys))
    facts: dict[UUID, dict[str, Any]] = {key: caller.facts[key][-1] for key in keys if key not in caller.invocations}
    assert {(fact["type"], fact["code"]) for fact in facts.values()} <= {("call.postponed", "quota_exceeded")}
    assert {fact["type"] for fact in facts.values()} <= SOURCE_FACTS["tas"]
    sent = [key for key in keys if key in caller.invocations]
    return sent, {key: datetime.fromisoformat(fact["until"]) for key, fact in facts.items()}


async def counter(service: ServiceProcess) -> float:
    found = re.findall(r"^towpath_tas_calls_postponed_total (\S+)", await service.metrics(), re.MULTILINE)
    return float(found[0])


async def test_replicas_together_let_a_project_have_its_calls(tas: Running, replica: ServiceProcess) -> None:
    """Those on top are postponed to the next minutes, as many to each as it has room for; nothing of them is stored."""
    caller, quota = tas.caller, Quota(tas)
    await quota.set(LIMIT)
    while True:
        minute = await quota.minute()
        sent, postponed = await decided(caller, [caller.request("orders.find") for _ in range(CALLS)])
        if await quota.minute() == minute:
            break
        await quota.begin_anew()
    assert (len(sent), len(postponed)) == (LIMIT, CALLS - LIMIT)
    assert await quota.counted() == (LIMIT, CALLS - LIMIT)
    expected = (minute + timedelta(minutes=1 + place // LIMIT) for place in range(CALLS - LIMIT))
    assert Counter(postponed.values()) == Counter(expected)
    rows = await query(tas.dsn, "SELECT execution_id FROM tas.tool_call WHERE project = $1", caller.project)
    stored = {row["execution_id"] for row in rows}
    assert stored.issuperset(sent)
    assert stored.isdisjoint(postponed)
    both = [await counter(one) for one in (tas.service, replica)]
    assert sum(both) >= CALLS - LIMIT


async def test_no_call_is_postponed_for_more_than_ten_minutes(tas: Running) -> None:
    caller, quota = tas.caller, Quota(tas)
    await quota.set(1)
    while True:
        minute = await quota.minute()
        _, postponed = await decided(caller, [caller.request("orders.find") for _ in range(CALLS)])
        if await quota.minute() == minute:
            break
        await quota.begin_anew()
    counts = Counter(postponed.values())
    assert {until: counts[until] for until in sorted(counts)} == {
        minute + timedelta(minutes=n): 1 if n < 10 else CALLS - 10 for n in range(1, 11)
    }


async def test_calls_that_are_postponed_use_nothing_of_a_limited_rule(tas: Running) -> None:
    """Of a rule with room for five calls the quota lets two have theirs: the others come again, and none is denied."""
    caller, quota = tas.caller, Quota(tas)
    for limit in ("rate: {calls: 5, per_s: 3600}", "max_calls_per_run: 5"):
        await caller.apply(OPEN.replace("effect: allow", f"effect: allow, {limit}"))
        await quota.set(2)
        await quota.begin_anew()
        run_id = new_run_id()
        sent, postponed = await decided(caller, [caller.request("orders.find", run_id=run_id) for _ in range(CALLS)])
        assert len(sent) in (2, 4), "4 where the minute is another one by now"
        assert len(postponed) == CALLS - len(sent)


async def test_a_call_that_was_postponed_passes_once_there_is_room(tas: Running) -> None:
    caller, quota = tas.caller, Quota(tas)
    await quota.set(1)
    first, second = [caller.request("orders.find") for _ in range(2)]
    await caller.put(first)
    await caller.dispatched(first)
    await caller.put(second)
    told = await caller.fact(second, "call.postponed")
    assert (told["attempt"], told["message"]) == (1, f"project {caller.project} has used its tool calls of this minute")
    await quota.begin_anew()
    await caller.again(second, attempt=2)
    await caller.dispatched(second)


async def test_a_call_of_a_run_that_was_stopped_is_void_and_takes_no_place(tas: Running) -> None:
    """The tool-access service has heard of the fence before it has heard of the run's first call."""
    caller, quota = tas.caller, Quota(tas)
    for limit in (1_000, 1):
        await quota.set(limit)
        await caller.call("orders.find")
        before = await quota.counted()
        late = caller.request("orders.find", run_id=(run_id := new_run_id()))
        await query(tas.dsn, FENCED, run_id, caller.project)
        await caller.put(late)
        assert (await caller.fact(late, "tool.finished"))["status"] == "void"
        await caller.quiet()
        assert await quota.counted() in (before, (0, 0)), "0 where the minute is another one by now"
        await quota.begin_anew()


async def test_a_call_has_its_place_once_however_often_it_is_asked_for(tas: Running) -> None:
    """A denied call has none."""
    caller, quota = tas.caller, Quota(tas)
    await quota.set(1_000)
    call = caller.request("orders.find")
    await caller.put(call)
    await caller.dispatched(call)
    await caller.again(call)
    await caller.again(call, attempt=2)
    denied = await caller.put(caller.request("orders.unknown"))
    await caller.fact(denied, "tool.denied")
    await caller.quiet()
    assert (await quota.counted())[0] in (0, 1), "1, or 0 where the minute is another one by now"
    await quota.set(None)
    await quota.begin_anew()
    await caller.call("orders.find")
    await caller.quiet()
    assert await quota.counted() in ((0, 0), (1, 0)), "nothing is counted where nothing is limited"
