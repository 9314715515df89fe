"""`towpath runs bulk`: cancel, retry, label or export many runs at once, after a count of them.

Without --yes it only counts: what is done then is done to the runs that the platform names, and to no others.
"""

import sys
from typing import Any, Literal
from uuid import uuid4

from cyclopts import App

from towpath.cli.runs.stored_run_commands import record_pieces
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath.cli.shared.progress import progress, without_progress
from towpath.cli.shared.short_ids import resolve_run_id
from towpath.cli.shared.text import json_escaped
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.bulk import MAX_AT_ONCE
from towpath_contracts.runs.statuses import RunStatus
from towpath_contracts.text import counted

_COUNT = (
    Column("action", "action"),
    Column("runs", "count"),
    Column("by status", lambda row: ", ".join(f"{status} {many}" for status, many in row["by_status"].items())),
    Column("all of them", lambda row: "yes" if row["whole"] else "no, there are more"),
    Column("next", "next"),
)
_DONE = (
    Column("run", "run_id", is_id=True),
    Column("done", lambda row: row["code"] or "yes"),
    Column("new run", lambda row: row["new_run_id"] or "", is_id=True),
    Column("why not", "detail", is_whole=True),
)
_EXAMPLES = examples(
    "towpath runs bulk cancel --network support --status waiting",
    "towpath runs bulk retry --label team=shop --status failed --reason 'the vendor is back' --yes",
    "towpath runs bulk label --network support --set case=4711 --remove draft --yes",
    "towpath runs bulk export --status failed > failed.jsonl",
)


def add_to(app: App) -> None:
    """Add this command to `towpath runs`."""
    app.command(bulk, help_epilogue=_EXAMPLES)
    app.command(
        retry,
        help_epilogue=examples("towpath runs retry 0192f3", "towpath runs retry 0192f3 --reason 'the vendor is back'"),
    )


async def bulk(
    action: Literal["cancel", "retry", "label", "export"],
    /,
    *,
    status: RunStatus | None = None,
    network: str | None = None,
    kind: str | None = None,
    label: str | None = None,
    set: tuple[str, ...] = (),  # noqa: A002 - the option's name
    remove: tuple[str, ...] = (),
    reason: str = "",
    yes: bool = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Do something to all runs that match, 500 at most; first they are counted, and nothing is changed without --yes.

    A retry is a new run of the same task and network version, with a budget of its own, of a run that ended otherwise
    than completed. Export prints records as `runs export` does, one after the other.

    Args:
        action: cancel, retry, label or export.
        status: Only runs with this status.
        network: Only runs of this network.
        kind: Only runs of this kind.
        label: Only runs with this label, as key=value.
        set: A label to add or change, as key=value; may be repeated.
        remove: The key of a label to take away; may be repeated.
        reason: Why; it stands in the audit of each, and a retry's model is told.
        yes: Do it; without it they are only counted.
    """
    given = {"status": status, "network": network, "kind": kind, "label": label}
    wanted = {name: value for name, value in given.items() if value is not None}
    labels = dict(_label(one) for one in set)
    out = common.out()
    async with common.connect() as client:
        selection = await client.request("POST", "/v1/runs/bulk/select", body={"action": action, "filter": wanted})
        if action == "export":
            return await _export(client, selection)
        if not yes or not selection["count"]:
            following = "Nothing was changed; do it with: --yes" if selection["count"] else "No run matches."
            out.record({**selection, "next": following}, _COUNT)
            return OK
        body: dict[str, Any] = {"action": action, "reason": reason, "key": uuid4().hex}
        if action == "label":
            body |= {"labels": labels, "remove": list(remove)}
        results: list[dict[str, Any]] = []
        with out.progress(f"Doing to each run: {action}") as shown:
            for first in range(0, selection["count"], MAX_AT_ONCE):
                some = {**body, "run_ids": selection["run_ids"][first : first + MAX_AT_ONCE]}
                results += (await client.request("POST", "/v1/runs/bulk", body=some))["results"]
                shown.count(len(results), "runs", of=selection["count"])
    out.rows("runs", results, _DONE, empty="No run matches. Which there are: towpath runs list.")
    if not selection["whole"]:
        sys.stderr.write(f"these were {counted(selection['count'], 'run')}; there are more\n")
    return RUN_FAILED if any(one["code"] for one in results) else OK


async def retry(run: str, /, *, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Start the task of a run once more, with the same version and a budget of its own; what it did is not undone.

    Args:
        run: The run's id, or its beginning or end.
        reason: Why; it stands in the audit, and the model is told.
    """
    async with common.connect() as client:
        run_id = await resolve_run_id(client, run)
        body = {"action": "retry", "run_ids": [str(run_id)], "reason": reason, "key": uuid4().hex}
        (done,) = (await client.request("POST", "/v1/runs/bulk", body=body))["results"]
    if done["code"]:
        raise ProblemError(problem(done["code"], done["detail"]))
    out = common.out()
    out.record(done, _DONE[::2])
    out.write(f"follow it: towpath runs watch {done['new_run_id']}", "dim")


async def _export(client: Any, selection: dict[str, Any]) -> int:
    with progress("Exporting runs", shown=not sys.stdout.isatty()) as shown:
        for number, run_id in enumerate(selection["run_ids"]):
            shown.count(number, "runs", of=selection["count"])
            async for text in record_pieces(client, f"/v1/runs/{run_id}/record"):
                with without_progress():
                    sys.stdout.write(json_escaped(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()
    more = "" if selection["whole"] else "; there are more"
    sys.stderr.write(f"{counted(selection['count'], 'run')}{more}\n")
    return OK


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ProblemError(problem("request_invalid", f"--set {text!r}: a label is key=value"))
    return key, value
