"""`towpath runs diff`: two runs side by side, as the console compares them."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from towpath.cli.shared import short_ids
from towpath.cli.shared.confirmation import Flag
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.text import one_line
from towpath_contracts.base import JsonObject
from towpath_contracts.text import counted

if TYPE_CHECKING:
    from towpath.client.client import Client
    from towpath_console.pages.runs.history import HistoryPart, HistorySource

VALUE_CHARS = 100
"""Of a value that differs; -o json has all of it."""

HISTORY_LAG_S = 5.0
"""How long a comparison waits until history has what the run itself has; it follows within a moment."""

_LOOK_S = 0.1

_MARKS = {"same": (" ", "dim"), "unequal": ("~", "yellow"), "a": ("-", "red"), "b": ("+", "green")}


class ClientHistory:
    """Reads history as the console's pages do, over a client."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Return what is at *path*."""
        found: JsonObject = await self._client.request("GET", path, query=params)
        return found


async def diff(a: str, b: str, /, *, whole: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Compare two runs: their steps aligned by agent, action and tools, and what differs in those that are aligned.

    Args:
        a: One run's id, or its beginning or end.
        b: The other's.
        whole: Show the steps that are equal, too.
    """
    from towpath_console.pages.runs.comparison import MOST_STEPS, compared_rows

    async with common.connect() as client:
        ids = [await short_ids.resolve_run_id(client, one) for one in (a, b)]
        views = [(await client.get(run_id)).model_dump(mode="json") for run_id in ids]
        source = ClientHistory(client)
        parts = [await recorded_steps(source, view, MOST_STEPS) for view in views]
    rows = compared_rows(*parts)
    out = common.out()
    if out.for_people:
        _show(out, views, rows, whole=whole)
        for view, part in zip(views, parts, strict=True):
            if part.seq < view["seq"]:
                out.write(f"History does not have all of {view['run_id']} yet: compare again.", "yellow")
        if not all(part.whole for part in parts):
            out.write(f"Only the first {MOST_STEPS} steps of each are compared.", "yellow")
    else:
        complete = all(part.whole and part.seq >= view["seq"] for view, part in zip(views, parts, strict=True))
        out.data({"a": views[0], "b": views[1], "rows": rows, "complete": complete})


async def recorded_steps(source: "HistorySource", view: JsonObject, most: int) -> "HistoryPart":
    """Return at most *most* steps of a run, once history has read its log as far as *view*, or HISTORY_LAG_S later."""
    from towpath_console.pages.runs.history import read_steps

    part = await read_steps(source, view["run_id"], -1, most)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HISTORY_LAG_S):
            while part.seq < view["seq"]:
                await asyncio.sleep(_LOOK_S)
                part = await read_steps(source, view["run_id"], -1, most)
    return part


def _show(out: OutputPrinter, views: list[dict[str, Any]], rows: list[dict[str, Any]], *, whole: bool) -> None:
    for sign, view in zip("-+", views, strict=True):
        out.write(f"{sign} {view['run_id']}  {view['network']}@v{view['version']}  {view['status']}", "bold")
    for row in rows:
        if row["kind"] == "same" and not whole:
            continue
        mark, style = _MARKS[row["kind"]]
        step = row.get("a") or row["b"]
        number = "/".join(str(row[side]["number"]) for side in "ab" if side in row)
        out.write(f"{mark} step {number}  {step['agent']} {step['what']}", style)
        for change in row["changes"]:
            for sign, value, colour in (("-", change["a"], "red"), ("+", change["b"], "green")):
                if value is not None:
                    out.write(f"    {sign} {change['name']}: {one_line(value, VALUE_CHARS)}", colour)
    equal = sum(row["kind"] == "same" for row in rows)
    out.write(f"{equal} of {counted(len(rows), 'step')} {'is' if equal == 1 else 'are'} equal", "dim")
