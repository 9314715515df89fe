"""Settings: what the gateway runs with, what is kept for how long, keys, switches, and notices that nobody took."""

from collections.abc import Iterable, Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import chosen, if_allowed

SECTION = "/settings"
KEYS = 100
NOTICES = 50
REFRESH_S = 3.0
ROLES = ("viewer", "operator", "approver", "policy_admin", "auditor")
SCOPES = (
    *("runs:read", "runs:write", "runs:operate", "networks:read", "networks:write", "gates:read", "gates:resolve"),
    *("audit:read", "policy:read", "policy:write", "keys:admin", "audit:erase", "platform:operate"),
)
SWITCH_KINDS = ("tool", "network", "caller", "project")
NOTICE_STATUSES = ("dead", "pending", "sent", "obsolete", "all")
DAY_S = 86_400
UNITS = ((DAY_S, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
INVALID = 422
TOPICS = {
    "Address and requests": ("GATEWAY_", "HTTP_", "MAX_", "RUN_WAIT_S"),
    "Sign-in": ("AUTH", "LOCAL_", "OIDC_", "SESSION_"),
    "Message bus": ("NATS_",),
    "Database": ("DATABASE_",),
    "Logs, health and traces": ("LOG_", "HEALTH_", "OTEL_", "OTLP_"),
}
OTHER = "Process"
"""What a setting is about, by how its name begins."""


async def configuration(asked: Asked) -> Page:
    """Make the page with what the gateway runs with."""
    found = await if_allowed(asked.api.get("/v1/settings"))
    wanted = asked.query.get("name", "").upper()
    only_set = asked.query.get("origin") == "set"
    rows = [
        row
        for row in found.get("settings", ())
        if wanted in row["name"] and (not only_set or row["origin"] != "default")
    ]
    view = {
        "tab": "configuration",
        "topics": _by_topic(rows),
        "allowed": bool(found),
        "instance": found.get("instance", ""),
    }
    return Page("Settings", "settings.html", found, view)


def _by_topic(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    topics: dict[str, list[Mapping[str, Any]]] = {topic: [] for topic in (*TOPICS, OTHER)}
    for row in rows:
        name = row["name"].removeprefix("TOWPATH_")
        topics[next((topic for topic, begins in TOPICS.items() if name.startswith(begins)), OTHER)].append(row)
    return {topic: found for topic, found in topics.items() if found}


async def retention(asked: Asked) -> Page:
    """Make the page with what is kept for how long."""
    found = await if_allowed(asked.api.get("/v1/settings/retention"))
    periods = [{**one, "period": _period(one)} for one in found.get("periods", ())]
    return Page("Retention", "retention.html", found, {"tab": "retention", "periods": periods})


def _period(row: Mapping[str, Any]) -> str:
    """Return the period of *row* in its largest whole unit; nothing where it is not known."""
    if row["origin"] == "unknown":
        return ""
    if row["kept_s"] is None:
        return "for ever"
    size, unit = next(one for one in UNITS if row["kept_s"] % one[0] == 0)
    number = row["kept_s"] // size
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


async def keys(asked: Asked) -> Page:
    """Make the list of keys, with what makes and ends one."""
    return await _keys(asked, {}, "")


async def _keys(asked: Asked, said: Mapping[str, str], problem: str) -> Page:
    """Make the list of keys; *said* and *problem* are of a form by which no key was made."""
    found = await asked.api.get("/v1/keys", limit=KEYS, **chosen(asked.query, "after"))
    words = asked.query.get("caller", "")
    view = {
        "tab": "keys",
        "keys": [key for key in found["keys"] if words in key["caller"]],
        "next_after": found.get("next_after"),
        "words": words,
        "roles": ROLES,
        "scopes": SCOPES,
        "said": said,
        "problem": problem,
    }
    return Page("Keys", "keys.html", found, view, status=INVALID if problem else 200)


MOST_DIGITS = 9
"""Of a number of days: with more Python may read none, and the API says what is too long."""


async def make_key(asked: Asked, form: Mapping[str, str]) -> Page:
    """Make a key and show it, this once: nothing can tell it again. What was written is kept where none is made."""
    days = form.get("days", "").strip()
    if days and (not days.isdecimal() or len(days) > MOST_DIGITS):
        return await _keys(asked, form, f"“{days[:40]}” is no number of days.")
    body: dict[str, Any] = {
        "caller": form.get("caller", ""),
        "roles": [role for role in ROLES if form.get(f"role:{role}") == "yes"],
        "scopes": [scope for scope in SCOPES if form.get(f"scope:{scope}") == "yes"],
        "note": form.get("note", ""),
    }
    if days:
        body["expires_in_s"] = int(days) * DAY_S
    if not body["roles"] and not body["scopes"]:
        return await _keys(asked, form, "choose what it may do, a role or a scope.")
    try:
        made = await asked.api.post("/v1/keys", body)
    except ApiRefusalError as error:
        if error.status != INVALID:
            raise
        return await _keys(asked, form, f"{error.problem.get('detail') or error.problem.get('title')}.")
    return Page("Key made", "key_made.html", {"prefix": made["prefix"]}, {"tab": "keys", "made": made})


async def revoke_key(asked: Asked, form: Mapping[str, str]) -> Done:
    """End a key, once somebody has said so twice."""
    prefix = asked.path["prefix"]
    if form.get("confirmed") != "yes":
        raise _invalid("/confirmed", "tick the box that says what revoking does")
    await asked.api.delete(f"/v1/keys/{prefix}")
    return Done("/settings/keys", f"The key {prefix} is revoked.")


async def switches(asked: Asked) -> Page:
    """Make the page with what is paused."""
    found = await asked.api.get("/v1/switches")
    view = {"tab": "switches", "switches": found["switches"], "kinds": SWITCH_KINDS}
    return Page("Switches", "switches.html", found, view, REFRESH_S)


async def set_switch(asked: Asked, form: Mapping[str, str]) -> Done:
    """Pause something, or let it go on, with a reason."""
    verb = asked.path["verb"]
    if verb not in ("pause", "resume"):
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such action", "detail": verb})
    body: dict[str, Any] = {
        "kind": form.get("kind", ""),
        "name": form.get("name") or None,
        "reason": form.get("reason", ""),
    }
    if verb == "pause":
        body["stop_running"] = form.get("stop_running") == "yes"
    done = await asked.api.post(f"/v1/switches/{verb}", body)
    what = form.get("name") or "the project"
    if not done["changed"]:
        said = f"Nothing changed: {what} {'was paused already' if verb == 'pause' else 'was not paused'}."
    else:
        said = f"{what} is paused." if verb == "pause" else f"{what} goes on."
    if done.get("stopping"):
        said += f" {done['stopping']} running calls are asked to stop."
    return Done("/settings/switches", said)


async def notices(asked: Asked) -> Page:
    """Make the list of notices of gates."""
    wanted = {"status": "dead", **chosen(asked.query, "status", "before")}
    found = await asked.api.get("/v1/notices", limit=NOTICES, **wanted)
    view = {
        "tab": "notices",
        "notices": found["notices"],
        "receivers": found.get("receivers") or (),
        "console_url": found.get("console_url", ""),
        "next_before": found.get("next_before"),
        "shown": wanted["status"] or "dead",
        "statuses": NOTICE_STATUSES,
    }
    return Page("Notices", "notices.html", found, view, None if wanted.get("before") else REFRESH_S)


async def retry_notice(asked: Asked, form: Mapping[str, str]) -> Done:
    """Send a notice again."""
    del form
    await asked.api.post(f"/v1/notices/{asked.path['notice_id']}/retry")
    return Done("/settings/notices", "The notice is sent again.")


def _invalid(pointer: str, detail: str) -> ApiRefusalError:
    problem = {
        "code": "request_invalid",
        "title": "The form is not valid",
        "detail": detail,
        "errors": [{"pointer": pointer, "detail": detail}],
        "remedy": "Go back, correct it, and send the form again.",
    }
    return ApiRefusalError(422, problem)


PAGES = (
    PageRoute("/settings", configuration, SECTION),
    PageRoute("/settings/retention", retention, SECTION),
    PageRoute("/settings/keys", keys, SECTION),
    PageRoute("/settings/switches", switches, SECTION),
    PageRoute("/settings/notices", notices, SECTION),
)
ACTIONS = (
    ActionRoute("/settings/keys", make_key, "keys:admin", SECTION),
    ActionRoute("/settings/keys/{prefix}/revoke", revoke_key, "keys:admin", SECTION),
    ActionRoute("/settings/switches/{verb}", set_switch, "runs:operate", SECTION),
    ActionRoute("/settings/notices/{notice_id}/retry", retry_notice, "runs:operate", SECTION),
)
