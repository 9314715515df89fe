"""`towpath runs diff`: two runs side by side, as the console compares them."""

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

VALUE_CHARS = 100
"""Of a value that differs; -o json has all of it."""

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
    from towpath_console.pages.runs.history import read_steps

    async with common.connect() as client:
        ids = [await short_ids.resolve_run_id(client, one) for one in (a, b)]
        views = [(await client.get(run_id)).model_dump(mode="json") for run_id in ids]
        source = ClientHistory(client)
        parts = [await read_steps(source, str(run_id), -1, MOST_STEPS) for run_id in ids]
    rows = compared_rows(*parts)
    out = common.out()
    if out.for_people:
        _show(out, views, rows, whole=whole)
        if not all(part.whole for part in parts):
            out.write(f"Only the first {MOST_STEPS} steps of each are compared.", "yellow")
    else:
        out.data({"a": views[0], "b": views[1], "rows": rows, "complete": all(part.whole for part in parts)})


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
