"""`towpath.embedded`: a script brings the whole platform along."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.docs_site.taken_blocks import taken
from tests.support.decider.gemini_server import gemini, says

from towpath import Agent, RefusedError, embedded, run
from towpath.client.embedded import EmbeddedServer
from towpath_contracts.runs.views import RunView

TOOLS = """\
from towpath import tool


@tool(name="orders.find", toolset="desk", effect_class="pure")
def find(order: str) -> str:
    \"\"\"Find an order.\"\"\"
    return order


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


def test_b1_the_three_forms_of_run_work_where_no_server_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row B1: run, run.sync and run.stream, against the platform of the page's block, gone when the block ends."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    clerk, script = Agent("clerk", tools=["desk.count"]), [COUNTS, ANSWER]

    def look(platform: EmbeddedServer, view: RunView) -> str:
        """See what the block of the page has done, and do the rest within it."""
        assert (view.status, view.text) == ("completed", "On its way.")
        found = platform.run.sync(clerk, "How many?", script=script, timeout=60)
        assert (found.status, found.final, found.last_output) == ("completed", {"message": "five"}, 5)

        async def both() -> tuple[str, list[str]]:
            view = await platform.run(clerk, "How many?", script=script, timeout=60)
            streamed = [one.type async for one in platform.run.stream(clerk, "How?", detailed=False, script=script)]
            assert platform.run.sync(clerk, "How many?", script=script, timeout=60).text == "five"  # as in a notebook
            async with platform.client() as client:
                assert len((await client.runs()).runs) == 5
                assert await client.result(view.run_id, timeout=60, as_=Said) == Said("five")
            return view.status, streamed

        assert asyncio.run(both()) == ("completed", ["tool_call", "text"])
        return platform.url

    block = taken("docs/networks.md: from towpath import Agent, embedded")
    names: dict[str, Any] = {"look": look}
    decided = {"action": "RESPOND", "action_details": {"payload": "On its way."}}
    with gemini(says(json.dumps(decided))) as model:
        monkeypatch.setenv("GEMINI_API_KEY", "no-real-key")
        monkeypatch.setenv("TOWPATH_GEMINI_BASE_URL", model.url)
        exec(compile(f"{block.text}    address = look(platform, view)\n", block.place, "exec"), names)
    address = names["address"]
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
