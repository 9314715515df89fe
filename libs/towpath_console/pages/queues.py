"""What could not be handled: dead letters with the reason, each with its content, and what a person decides about it.

Beside them the lag of each queue, as the broker tells it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import chosen, if_allowed, together

LIMIT = 50
REFRESH_S = 3.0
STATUSES = ("dead", "requeued", "discarded")
STREAMS = ("TASKS", "INBOX", "DECIDE", "TOOLREQ", "TOOLEXEC", "TOOLOUT", "EVENTS", "LOGS")
ROLES = {
    ("TASKS", "orchestrator"): ("orchestrator", "tasks that were handed in without waiting"),
    ("INBOX", "orchestrator"): ("orchestrator", "what happened outside of runs"),
    ("TOOLREQ", "tas"): ("tool access", "calls that runs ask for"),
    ("TOOLOUT", "tas"): ("tool access", "outcomes of calls"),
    ("EVENTS", "log_writer"): ("log writer", "events of runs, for the history"),
    ("EVENTS", "watchdog"): ("watchdog", "events of runs, for loops"),
    ("LOGS", "log_writer"): ("log writer", "logs of tools and model calls"),
    ("DECIDE", "decide_default"): ("decider", "decisions that runs wait for"),
}
"""Who takes from the shared queues, and what is in them."""

VERDICTS = {"requeue": "It is sent again.", "discard": "It is discarded; it stays readable."}


async def queues(asked: Asked) -> Page:
    """Make the list of dead letters that the query asks for, and the queues."""
    wanted = {"status": "dead", **chosen(asked.query, "status", "stream", "before")}
    found = await together(
        letters=asked.api.get("/v1/dead-letters", limit=LIMIT, **wanted),
        queues=if_allowed(asked.api.get("/v1/queues")),
    )
    view = {
        "letters": found["letters"]["letters"],
        "next_before": found["letters"].get("next_before"),
        "queues": with_state(found["queues"].get("queues", ())),
        "left_out": found["queues"].get("left_out", 0),
        "streams": found["queues"].get("streams", ()),
        "shown": wanted["status"] or "dead",
        "filtered": (wanted["status"] or "dead") != "dead" or bool(wanted.get("stream")),
        "statuses": STATUSES,
        "stream_names": STREAMS,
    }
    return Page("Queues", "queues.html", found, view, None if wanted.get("before") else REFRESH_S)


def with_state(queues: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return *queues* with who takes from each, and a word for whether anybody does."""
    rows = []
    for queue in queues:
        role, what = ROLES.get((queue["stream"], queue["consumer"]), ("", ""))
        if queue["toolset"]:
            role, what = "workers", f"calls of the toolset {queue['toolset']}"
        rows.append({**queue, "state": state_of(queue), "role": role, "what": what})
    return rows


def state_of(queue: Mapping[str, Any]) -> str:
    """Return a word for whether anybody takes from *queue*: who has its hands full asks for no more."""
    if queue["missing"]:
        return "not known"
    return "listening" if queue["listeners"] else "busy" if queue["in_flight"] else "nobody listens"


async def dead_letter(asked: Asked) -> Page:
    """Make the page of one dead letter."""
    letter = await asked.api.get(f"/v1/dead-letters/{asked.path['letter_id']}")
    return Page(f"Dead letter {letter['dead_letter_id']}", "dead_letter.html", letter, {"letter": letter})


async def settle(asked: Asked, form: Mapping[str, str]) -> Done:
    """Send a letter again, or discard it, with a reason."""
    letter_id, verdict = asked.path["letter_id"], asked.path["verdict"]
    if verdict not in VERDICTS:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such verdict", "detail": verdict})
    await asked.api.post(f"/v1/dead-letters/{letter_id}/{verdict}", {"reason": form.get("reason", "")})
    return Done(f"/queues/{letter_id}", VERDICTS[verdict])


PAGES = (
    PageRoute("/queues", queues, "/queues"),
    PageRoute("/queues/{letter_id}", dead_letter, "/queues"),
)
ACTIONS = (ActionRoute("/queues/{letter_id}/{verdict}", settle, "runs:operate"),)
