"""Who reads the audit as often as they can holds up nobody who stops or approves something."""

import asyncio
from typing import Any

from tests.support.tas.tas_running import running
from tests.support.waiting import eventually

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError

AT_ONCE = 120
"""Of each question: one alone takes some milliseconds."""


async def test_a_stop_switch_is_set_while_another_project_reads_the_audit(
    nats_server: Any, database: Any, tmp_path: Any
) -> None:
    async with running(nats_server, database, tmp_path) as tas:
        for place in range(100):
            action = {
                "project": "greedy",
                "action": "gate.resolved",
                "actor": "ann",
                "reason": f"{place}",
                "detail": {},
            }
            await tas.caller.ask(rpc.RECORD_ACTION, **action)
        answered = 0

        async def read(method: rpc.RpcMethod, **values: Any) -> str:
            nonlocal answered
            try:
                await tas.caller.ask(method, project="greedy", **values)
            except ProblemError as error:
                return error.problem.code
            finally:
                answered += 1
            return "read"

        flood = [
            asyncio.ensure_future(read(method, **values))
            for _ in range(AT_ONCE)
            for method, values in ((rpc.AUDIT_EXPORT, {"actor": "mallory"}), (rpc.AUDIT_QUERY, {"limit": 1_000}))
        ]
        await eventually(lambda: answered > 0)
        for place in range(8):
            switch = {"kind": "tool", "name": f"orders.{place}", "paused": True, "reason": "it leaks"}
            await tas.caller.ask(rpc.SET_SWITCH, project="shop", actor="ann", roles=("operator",), **switch)
        assert answered < AT_ONCE, "the switches waited for what was asked before them"
        assert {*await asyncio.gather(*flood)} <= {"read", "overloaded"}
