"""Retrying, labelling and exporting many runs: the page counts them first, and then does it to exactly those."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done, Download, DownloadRoute, Page, PageRoute
from towpath_console.pages.names import list_of_runs
from towpath_console.pages.runs.history import require_run_id
from towpath_console.pages.shared import chosen
from towpath_contracts.runs.bulk import MAX_AT_ONCE, MAX_SELECTED

FILTERS = ("status", "network", "label", "kind", "parent_run_id", "root_run_id", "thread_id")
ACTIONS_OF_PAGE = ("retry", "label", "export")
SHOWN = 20
LISTED = 50
"""Runs that are looked up for their tasks: the newest ones of the filter."""


async def confirm(asked: Asked) -> Page:
    """Make the page that counts the runs of a filter for an action; nothing is changed by it."""
    action = asked.query.get("action") or "label"
    if action not in ACTIONS_OF_PAGE:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such action", "detail": action})
    filters = {name: value for name, value in chosen(asked.query, *FILTERS).items() if value}
    found = await asked.api.post("/v1/runs/bulk/select", {"action": action, "filter": filters})
    listed = await asked.api.get("/v1/runs", limit=LISTED, **filters) if found["count"] else {"runs": ()}
    chosen_ids = set(found["run_ids"])
    rows = [run for run in listed["runs"] if run["run_id"] in chosen_ids][:SHOWN]
    shown = {run["run_id"] for run in rows}
    view = {
        "action": action,
        "rows": rows,
        "filters": filters,
        "count": found["count"],
        "whole": found["whole"],
        "counts": sorted(found["by_status"].items()),
        "run_ids": [one for one in found["run_ids"] if one not in shown][: SHOWN - len(rows)],
        "ids": ",".join(found["run_ids"]),
        "key": uuid4().hex,
        "back": f"/runs?{urlencode(filters)}",
        "query_string": urlencode(filters),
    }
    return Page(f"{action.capitalize()} runs", "runs_bulk.html", found, view)


async def act(asked: Asked, form: Mapping[str, str]) -> Done:
    """Retry or label the runs that were confirmed, and say what became of it."""
    action, ids = form.get("action", ""), [one for one in form.get("ids", "").split(",") if one]
    if len(ids) > MAX_SELECTED:
        detail = f"{len(ids)} runs are named, and a form takes {MAX_SELECTED}; nothing was changed"
        raise ApiRefusalError(422, {"code": "request_invalid", "title": "These are too many runs", "detail": detail})
    for one in ids:
        require_run_id(one)
    body: dict[str, Any] = {"action": action, "reason": form.get("reason", "")}
    if action == "label":
        body |= {"labels": _labels(form.get("set", "")), "remove": form.get("remove", "").replace(",", " ").split()}
    elif form.get("key"):
        body["key"] = form["key"]
    codes: Counter[str] = Counter()
    for first in range(0, len(ids), MAX_AT_ONCE):
        done = await asked.api.post("/v1/runs/bulk", {**body, "run_ids": ids[first : first + MAX_AT_ONCE]})
        codes.update(one["code"] for one in done["results"])
    number = codes.pop("", 0)
    said = [f"{number} of {len(ids)} runs were {'labelled' if action == 'label' else 'begun anew'}."]
    said += [f"{many} refused: {code}." for code, many in sorted(codes.items())]
    return Done(list_of_runs(form.get("back", "")), " ".join(said))


def _labels(text: str) -> dict[str, str]:
    """Read labels as people write them: `team=shop, tier=gold`; raises ApiRefusalError for what is none."""
    labels: dict[str, str] = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = one.partition("=")
        if not separator or not key.strip():
            detail = {"code": "request_invalid", "title": "A label is key=value", "detail": one[:80]}
            raise ApiRefusalError(422, {**detail, "remedy": "Go back and write labels as team=shop, tier=gold."})
        labels[key.strip()] = value.strip()
    return labels


async def export_file(asked: Asked) -> Download:
    """Give the records of the runs of a filter, one after the other, as JSON lines."""
    filters = {name: value for name, value in chosen(asked.query, *FILTERS).items() if value}
    found = await asked.api.post("/v1/runs/bulk/select", {"action": "export", "filter": filters})
    first = await _piece(asked.api, found["run_ids"][0], "") if found["run_ids"] else None  # refused before it begins
    return Download("runs.jsonl", "application/jsonl", _records(asked.api, found["run_ids"], first))


async def _records(api: Api, run_ids: list[str], first: dict[str, Any] | None) -> AsyncIterator[str]:
    piece = first
    for run_id in run_ids:
        piece = piece or await _piece(api, run_id, "")
        yield piece["text"]
        while (cursor := piece.get("next")) is not None:
            piece = await _piece(api, run_id, cursor)
            yield piece["text"]
        piece = None


async def _piece(api: Api, run_id: str, cursor: str) -> dict[str, Any]:
    return await api.get(f"/v1/runs/{run_id}/record", cursor=cursor)


PAGES = (PageRoute("/runs/bulk", confirm, "/runs"),)
ACTIONS = (ActionRoute("/runs/bulk", act, "runs:write"),)
DOWNLOADS = (DownloadRoute("/runs/bulk.jsonl", export_file),)
