"""`towpath.embedded`: a script brings the whole platform along."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from towpath import Agent, RefusedError, embedded, run

TOOLS = """\
from towpath import tool


@tool(name="desk.count", toolset="desk", effect_class="pure")
def count(what: str) -> int:
    \"\"\"Count.\"\"\"
    return len(what)
"""
POLICY = "kind: Policy\nrules:\n  - {name: desk, tool: 'desk.*', effect: allow}\n"
COUNTS = {"action": "USE_TOOL", "action_details": {"tool_name": "desk.count", "tool_params": {"what": "lamps"}}}
ANSWER = {"action": "RESPOND", "action_details": {"payload": "five"}}


@dataclass
class Said:
    """An answer."""

    message: str


def test_b1_the_three_forms_of_run_work_where_no_server_is(tmp_path: Path) -> None:
    """Row B1: run, run.sync and run.stream, against an embedded platform that is gone when the block ends."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "policy.yaml").write_text(POLICY)
    clerk, script = Agent("clerk", tools=["desk.count"]), [COUNTS, ANSWER]
    with embedded(workers=[tmp_path / "tools.py"], policy=tmp_path / "policy.yaml") as platform:
        found = platform.run.sync(clerk, "How many?", script=script, timeout=60)
        assert (found.status, found.final, found.last_output) == ("completed", {"message": "five"}, 5)

        async def both() -> tuple[str, list[str]]:
            view = await platform.run(clerk, "How many?", script=script, timeout=60)
            streamed = [one.type async for one in platform.run.stream(clerk, "How?", detailed=False, script=script)]
            assert platform.run.sync(clerk, "How many?", script=script, timeout=60).text == "five"  # as in a notebook
            async with platform.client() as client:
                assert len((await client.runs()).runs) == 4
                assert await client.result(view.run_id, timeout=60, as_=Said) == Said("five")
            return view.status, streamed

        assert asyncio.run(both()) == ("completed", ["tool_call", "text"])
        address = platform.url
    with pytest.raises(Exception, match="server_unreachable"):
        run.sync("clerk", "Still there?", server=address)


def test_b1_what_a_platform_can_not_be_started_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="file_missing"), embedded(policy=tmp_path / "none.yaml"):
        raise AssertionError("it was started")


async def test_b1_a_start_that_is_cancelled_leaves_nothing_behind() -> None:
    platform = embedded()
    starting = asyncio.create_task(platform.__aenter__())
    async with asyncio.timeout(60):
        while platform._process is None:  # noqa: ASYNC110 - a thread starts it
            await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert platform._process.poll() is not None
