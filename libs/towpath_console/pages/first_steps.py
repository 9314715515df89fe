"""The three first steps with the sample: run it, approve it, change a tool of it. Done is what the API says is done."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from towpath_console.api import Api
from towpath_console.pages.shared import if_allowed, together

SAMPLES: Mapping[str, str] = {"support": "Refund order 8812"}
"""What the box says at first, for networks that come with the platform."""

TOOLS = {"support": "orders.find"}
"""A tool of the sample that is good to be changed."""

MADE = "first-look"
"""The label `sample` of runs that nobody asked for: those of `towpath up --sample`."""


class FirstStep(NamedTuple):
    """One step: whether it is done, what it is called, how it is done, and the page that has to do with it."""

    is_done: bool
    name: str
    how: str
    page: str


async def first_steps(api: Api, networks: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> list[FirstStep]:
    """Return the steps while one of them is left; none where there is no sample, or all is done."""
    sample = next((name for name in SAMPLES if name in networks), None)
    if sample is None:
        return []
    tool = TOOLS[sample]
    found = await together(
        gates=if_allowed(api.get("/v1/gates", status="approved", limit=1)),
        tools=if_allowed(api.get("/v1/tools", name=tool)),
    )
    own = next((run["run_id"] for run in runs if run["labels"].get("sample") != MADE), None)
    steps = [
        FirstStep(
            own is not None,
            "Run it",
            "Press Run in the box with the task, and see each step as it happens.",
            f"/runs/{own}" if own else "/runs",
        ),
        FirstStep(
            bool(found["gates"].get("gates")),
            "Approve it",
            "A rule asks a person about refunds above 100: look where the arguments came from, and decide.",
            "/approvals",
        ),
        FirstStep(
            found["tools"].get("versions", {}).get(tool, 1) > 1,
            "Change the tool",
            f"Edit the description of {tool} in tools.py of the folder that towpath up prints as Sample; start again.",
            f"/tools/{tool}",
        ),
    ]
    return [] if all(step.is_done for step in steps) else steps
