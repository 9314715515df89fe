"""Tools that wait for a policy admin outside the embedded platform: weaker ones, and new ones that no rule names."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.tas.tas_caller import OPEN, tool
from tests.support.tas.tas_running import Running, running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.servers.nats import Nats

__all__ = ["shared_tas", "tas"]

NAMED = f"""{OPEN}
  - {{name: closing, tool: orders.close, effect: allow}}
"""


async def test_in_production_a_weaker_tool_waits_for_an_admin_and_so_does_one_that_no_rule_names(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    key = folder / "ticket.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    key.chmod(0o600)
    async with running(nats_server, database, folder, embedded="0", seal_key_file=str(key)) as tas:
        caller = tas.caller
        await caller.apply(OPEN)
        first = (await caller.register()).standings
        assert {one.status for one in first} == {"accepted"}, "a toolset that is new waits for nobody"
        weaker = tool("orders.refund", "pure", operation="write")
        standing = (await caller.register(weaker)).standings[0]
        assert (standing.status, standing.version) == ("pending", 2)
        assert "weaken from irreversible to pure" in standing.reason
        assert (await caller.call("orders.refund")).effect_class == "irreversible"
        assert (await caller.register(weaker)).standings[0] == standing, "offered again, still pending"
        assert (await caller.register(tool("orders.find", "pure", operation="read"), owner="x")).standings[
            0
        ].status == "pending"
        fields = {"project": "default", "name": "orders.refund", "version": 2, "actor": "paula"}
        await caller.ask(rpc.DECIDE_PROPOSAL, **fields, accept=True)
        assert (await caller.call("orders.refund")).effect_class == "pure"
        with pytest.raises(ProblemError, match="not_found"):
            await caller.ask(rpc.DECIDE_PROPOSAL, **fields, accept=False)
        assert [entry.phase for entry in await caller.audit(tool="orders.refund", actor="paula")] == ["tool.accepted"]
        new = (await caller.register(tool("orders.sneak", "pure"), tool("orders.close", "pure"))).standings
        assert [one.status for one in new] == ["pending", "pending"]
        assert "no rule names it, and rule everything" in new[0].reason
        assert (
            "tool_unknown"
            in (await caller.fact(await caller.put(caller.request("orders.sneak")), "tool.denied"))["denial"][
                "violation_type"
            ]
        )
        sneak = {"project": "default", "name": "orders.sneak", "version": 1, "actor": "paula"}
        await caller.ask(rpc.DECIDE_PROPOSAL, **sneak, accept=True)
        await caller.call("orders.sneak")
        await caller.apply(NAMED)
        assert (await caller.register(tool("orders.close", "pure"))).standings[0].status == "accepted", (
            "a rule names it"
        )


async def test_a_name_of_another_toolset_waits_and_what_a_person_refused_stays_refused_until_one_accepts_it(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    key = folder / "ticket.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    key.chmod(0o600)
    async with running(nats_server, database, folder, embedded="0", seal_key_file=str(key)) as tas:
        caller = tas.caller
        await caller.apply(NAMED)
        await caller.register()
        other = tool("orders.close", "pure", toolset="desk")
        standing = (await caller.register(other)).standings[0]
        assert standing.status == "pending", "also where a rule names it, and though `desk` is new"
        assert "names that begin with orders. are those of toolset orders" in standing.reason
        asked = {"project": "default", "name": "orders.close", "version": 1, "actor": "paula"}
        await caller.ask(rpc.DECIDE_PROPOSAL, **asked, accept=False, reason="not theirs")
        again = (await caller.register(other)).standings[0]
        assert (again.status, again.reason) == ("pending", "refused: not theirs")
        sneak = tool("orders.sneak", "pure")
        assert (await caller.register(sneak)).standings[0].status == "pending"
        asked["name"] = "orders.sneak"
        await caller.ask(rpc.DECIDE_PROPOSAL, **asked, accept=False, reason="no")
        await caller.apply(NAMED.replace("orders.close", "orders.sneak"))
        assert (await caller.register(sneak)).standings[0].reason == "refused: no", "a rule names it now"
        await caller.ask(rpc.DECIDE_PROPOSAL, **asked, accept=True)
        assert (await caller.register(sneak)).standings[0].status == "unchanged"


async def test_where_keys_tell_persons_from_workers_only_a_new_toolset_is_trusted(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder, auth="on") as tas:
        caller = tas.caller
        await caller.apply(OPEN)
        trusted = tool("orders.find", "pure", operation="read", trusted_output=True)
        assert (await caller.register(trusted)).standings[0].status == "accepted"
        weaker = trusted.model_copy(update={"operation": "call"})
        offered = (await caller.register(weaker, tool("orders.sneak", "pure"))).standings
        assert [one.status for one in offered] == ["pending", "pending"]
        others = (await caller.register(tool("orders.find", "pure", toolset="evil"), owner="team")).standings
        assert others[0].status == "pending", "a new toolset takes over no tool of another"
        others = (await caller.register(tool("orders.x", "pure", toolset="evil2"))).standings
        assert others[0].status == "pending", "nor a name that begins as those of another"


async def test_what_was_accepted_on_trust_is_told(tas: Running) -> None:
    caller = tas.caller
    assert (await caller.register(tool("orders.sneak", "pure"))).standings[0].status == "accepted"
    described = await caller.ask(rpc.DESCRIBE_TOOLS, project=caller.project, proposals=True)
    assert list(described.doubts) == ["orders.sneak"] and described.owners["orders.sneak"]
    named = await caller.ask(rpc.DESCRIBE_TOOLS, project=caller.project, proposals=True, names=("orders.other",))
    assert not (named.tools or named.proposals or named.owners), "of another tool nothing is told"
    asked = {"project": caller.project, "network": "support", "agent_key": "billing"}
    permissions = (await caller.ask(rpc.GET_PERMISSIONS, **asked)).permissions
    doubts = {one.tool: one.doubt for one in permissions if one.doubt}
    assert doubts == described.doubts
    assert "everything, whose pattern orders.* opens it" in doubts["orders.sneak"]
