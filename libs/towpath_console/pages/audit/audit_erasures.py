"""Erasures: what was erased, what waits for a second person, and asking for one.

Nothing is erased by the first form: another person confirms it, on the page that says what goes and what stays.
"""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Done, Page
from towpath_console.pages.names import is_uuid
from towpath_console.pages.shared import chosen, with_zone

LIMIT = 50
STATUSES = ("requested", "confirmed", "done", "withdrawn")
REFRESH_S = 3.0

PARTS = {
    "runs": "the run's log, facts, gates, notices, task and answer",
    "blobs": "large values that no other run names",
    "history": "history, steps, model calls and tool logs",
    "tas": "arguments, results and what approvals showed, and details of the audit's entries",
}
"""What each owner of tables erases of a run."""

PRUNED_PARTS = {"tas": "arguments, results and what approvals showed"}
"""What retention takes of a run, where it is less: details of the audit stay."""

LEFT = {
    "run": (
        "the run's row with its ids, times, network, caller and status",
        "what was spent, and how many calls there were",
        "which tool was called when, by which rule, for whom and how it ended; who approved",
        "every entry and leaf of the log, without its details: proofs still hold",
        "backups, exports, traces, and what was sent to models, tools and webhooks: see to these apart",
    ),
    "prune": (
        "the rows of the runs with their ids, times, network, caller and status",
        "which tool was called when, by which rule, for whom and how it ended; who approved",
        "every entry of the audit with its details, for as long as the audit is kept",
        "backups, exports, traces, and what was sent to models, tools and webhooks",
    ),
    "payloads": (
        "every entry and leaf of the log, without its details: proofs still hold",
        "the run's own log and history, and the ledger of its calls: an erasure of the run takes these",
        "backups, exports, traces, and what was sent to models, tools and webhooks: see to these apart",
    ),
}
"""What stays, by the kind of an erasure."""


async def erasures(asked: Asked) -> Page:
    """Make the list, newest first, with the form that asks for another."""
    wanted = chosen(asked.query, "status", "before")
    found = await asked.api.get("/v1/erasures", limit=LIMIT, **wanted)
    run = asked.query.get("run", "")
    view = {**found, "statuses": STATUSES, "shown": wanted.get("status"), "run": run, "tab": "erasures"}
    return Page("Erasures", "audit/erasures.html", found, view)


async def erasure(asked: Asked) -> Page:
    """Make the page of one: what goes, what stays, how far it is, and who may say the next word."""
    found = await asked.api.get(f"/v1/erasures/{_id(asked)}")
    me = await asked.api.get("/v1/me")
    view = {
        "one": found,
        "parts_of": PARTS
        | ({"tas": "arguments, results and what approvals showed"} if found["kind"] == "prune" else {}),
        "left": LEFT[found["kind"]],
        "is_own": found["requested_by"] == me.get("caller") and not found["single_person"],
        "tab": "erasures",
    }
    goes_on = found["status"] in ("requested", "confirmed")
    return Page(f"Erasure {found['status']}", "audit/erasure.html", found, view, REFRESH_S if goes_on else None)


async def request_erasure(asked: Asked, form: Mapping[str, str]) -> Done:
    """Ask for a run, or for payloads of the audit, to be erased."""
    given = {name: form[name].strip() for name in ("run_id", "caller", "before") if form.get(name, "").strip()}
    reason = form.get("reason", "").strip()
    if form.get("kind") == "run":
        run_id = given.get("run_id", "")
        if not is_uuid(run_id):
            raise _invalid("/run_id", "name the run by its whole id")
        if given.keys() - {"run_id"}:
            raise _invalid("/kind", "a run is erased whole: leave caller and time empty")
        made = await asked.api.post(f"/v1/runs/{run_id}/erase", {"reason": reason})
    else:
        if not given:
            raise _invalid("/caller", "say whose details are meant: a run, a caller, or a time")
        body: dict[str, Any] = given | ({"before": with_zone(given["before"])} if "before" in given else {})
        made = await asked.api.post("/v1/erasures", body | {"reason": reason})
    return Done(f"/audit/erasures/{made['erasure_id']}", "It is asked for. Nothing is erased until it is confirmed.")


async def decide(asked: Asked, form: Mapping[str, str]) -> Done:
    """Confirm an erasure, once somebody has said so twice, or withdraw it."""
    verb, name = asked.path["verb"], _id(asked)
    if verb not in ("confirm", "withdraw"):
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such action", "detail": verb})
    if verb == "confirm" and form.get("confirmed") != "yes":
        raise _invalid("/confirmed", "tick the box: nothing brings back what is erased")
    found = await asked.api.post(f"/v1/erasures/{name}/{verb}")
    said = "It is withdrawn; nothing was erased." if verb == "withdraw" else "It is confirmed, and carried out."
    return Done(f"/audit/erasures/{found['erasure_id']}", said)


def _id(asked: Asked) -> str:
    name = asked.path["erasure_id"]
    if not is_uuid(name):
        raise ApiRefusalError(404, {"code": "erasure_not_found", "title": "There is no such erasure", "detail": name})
    return name


def _invalid(pointer: str, detail: str) -> ApiRefusalError:
    problem = {"code": "request_invalid", "title": "The form is not valid", "detail": detail}
    more = {"errors": [{"pointer": pointer, "detail": detail}], "remedy": "Go back, correct it, and send it again."}
    return ApiRefusalError(422, problem | more)
