"""What each role finds on the pages of the console: the scope of each action, and forms as a browser has them."""

import asyncio
import re
import uuid
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import httpx2

from towpath_console.pages import ACTIONS, PAGES
from towpath_gateway.core.api_keys import ALL_SCOPES

NEEDS: dict[str, str] = {
    "/runs": "runs:write",
    "/runs/cancel": "runs:write",
    "/runs/bulk": "runs:write",
    "/runs/{run_id}/cancel": "runs:write",
    "/runs/{run_id}/note": "runs:write",
    "/runs/{run_id}/fork": "runs:write",
    "/runs/{run_id}/reply": "runs:write",
    "/runs/{run_id}/retry": "runs:write",
    "/runs/{run_id}/steering/{act}": "runs:operate",
    "/approvals/batch/{verdict}": "gates:resolve",
    "/approvals/{gate_id}/edit": "gates:resolve",
    "/approvals/{gate_id}/delegate": "gates:resolve",
    "/approvals/{gate_id}/{verdict}": "gates:resolve",
    "/networks": "networks:write",
    "/networks/{network:path}/run": "runs:write",
    "/networks/{network:path}/publish": "networks:write",
    "/tools/{tool:path}/switch/{verb}": "runs:operate",
    "/tools/{tool:path}/proposal/{verb}": "policy:write",
    "/tools/{tool:path}/try": "runs:write",
    "/policy/edit": "policy:write",
    "/policy/shadow/set": "policy:write",
    "/policy/shadow/end": "policy:write",
    "/policy/versions/{version}/roll-back": "policy:write",
    "/audit/verify": "audit:read",
    "/audit/erasures": "audit:erase",
    "/audit/erasures/{erasure_id}/{verb}": "audit:erase",
    "/workers/{worker_id}/drain": "runs:operate",
    "/queues/{letter_id}/{verdict}": "runs:operate",
    "/costs/budgets": "runs:operate",
    "/settings/providers": "runs:operate",
    "/settings/keys": "keys:admin",
    "/settings/keys/{prefix}/revoke": "keys:admin",
    "/settings/switches/{verb}": "runs:operate",
    "/settings/notices/{notice_id}/retry": "runs:operate",
}
"""The scope without which an action does nothing."""

READS = frozenset({"/runs/views", "/networks/check", "/policy/compare", "/policy/edit/check"})
"""Actions that change nothing on the platform: whoever may see the page may send them."""

ACTS = {
    "/tools/{tool:path}/proposal/{verb}": {"verb": "accept"},
    "/audit/erasures/{erasure_id}/{verb}": {"verb": "withdraw"},
    "/queues/{letter_id}/{verdict}": {"verdict": "discard"},
}
WORDS = {"verdict": "approve", "verb": "pause", "act": "pause", "prefix": "a" * 12, "letter_id": "1"}
FIELDS = {
    "reason": "r", "note": "n", "text": "kind: Policy\nrules: []\n", "confirmed": "yes", "kind": "caller", "name": "x",
    "usd": "1", "to": "somebody", "content": "c", "message": "m", "user_message": "m", "network": "support",
    "version": "1", "if_version": "1", "base": "1", "caller": "x", "role:viewer": "yes", "from_step": "1",
    "action": "cancel", "tool": "orders.refund", "rule": "refunds-over-100", "args": "{}", "agent": "billing",
    "digest": "sha256:1", "span": "all", "steps": "1",
}  # fmt: skip
"""What is sent with every form: some of it is asked for by each."""

NOTHING_SENT: dict[str, str] = {}
"""A form that most actions refuse: somebody who may not send it is told that, and not what it lacks."""


class Forms(HTMLParser):
    """The addresses to which a page sends, and whether anything there can be pressed."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: set[str] = set()
        self._action = ""
        self._fieldsets: list[bool] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "form":
            self._action = told.get("action") or "" if told.get("method") == "post" else ""
        elif tag == "fieldset":
            self._fieldsets.append("disabled" in told)
        elif tag == "button" and "disabled" not in told and not any(self._fieldsets):
            self.open.add(told.get("formaction") or self._action)

    def handle_endtag(self, tag: str) -> None:
        if tag == "fieldset" and self._fieldsets:
            self._fieldsets.pop()
        elif tag == "form":
            self._action = ""


def action_of(address: str) -> str:
    """Return the route of the action to which *address* sends; empty for none."""
    path = address.partition("?")[0]
    return next((route.path for route in ACTIONS if _pattern(route.path).fullmatch(path)), "")


def _pattern(route: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+(:path)?\}", lambda found: ".+" if found.group(1) else "[^/]+", route))


def paths_of(known: Mapping[str, Any]) -> dict[str, str]:
    """Return a path for each page and each action, by its route."""
    words = {**WORDS, **known}
    routes = [route.path for route in (*PAGES, *ACTIONS)]
    return {route: route.replace(":path}", "}").format_map(words | ACTS.get(route, {})) for route in routes}


async def role_faults(client: httpx2.AsyncClient, scopes: frozenset[str], known: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the pages of somebody with *scopes*, and with what they send all the same."""
    wrong: list[str] = []
    paths, questions = paths_of(known), {"/runs/compare": f"?a={known['run_id']}&b={known['run_id']}"}
    for route in PAGES:
        page = await client.get(paths[route.path] + questions.get(route.path, ""))
        if page.status_code not in {200, 403, 404} or not page.text.startswith("<!doctype html>"):
            wrong.append(f"{route.path}: {page.status_code}")
        if page.status_code == 403 and "scope" not in page.text:
            wrong.append(f"{route.path}: refused without the scope that it needs")
        for address in sorted(Forms(page.text).open):
            needed = NEEDS.get(action_of(address), "")
            if needed and needed not in scopes:
                wrong.append(f"{route.path}: {address} can be sent without {needed}")
    return [*wrong, *await _sent_all_the_same(client, frozenset(ALL_SCOPES) - scopes, known)]


async def _sent_all_the_same(client: httpx2.AsyncClient, lacked: frozenset[str], known: Mapping[str, Any]) -> list[str]:
    """Return which actions somebody who lacks their scope is not refused, or not told why."""
    wrong: list[str] = []
    paths = paths_of(known)
    origin = {"Origin": str(client.base_url).rstrip("/")}
    for action, needed in (one for one in NEEDS.items() if one[1] in lacked):
        for sent in (FIELDS | {"ids": str(known["run_id"])}, NOTHING_SENT):
            answer = await client.post(paths[action], data=sent, headers=origin)
            told = f"POST {action} with {len(sent)} fields without {needed}: {answer.status_code}"
            if answer.status_code != 403 or not answer.text.startswith("<!doctype html>"):
                wrong.append(f"{told} {answer.headers.get('location', '')}")
            elif not any(one in answer.text for one in lacked):
                wrong.append(f"{told}, and the page names no scope that is lacked")
    return wrong


async def pages_known(alice: httpx2.AsyncClient, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return what pages are about: a run that waits at a gate, and what belongs to it."""
    waiting = (await alice.get("/v1/gates?status=pending&limit=1")).json()["gates"]
    if not waiting:
        await alice.post("/v1/runs", json=dict(task))
        for _ in range(1_200):
            if waiting := (await alice.get("/v1/gates?status=pending&limit=1")).json()["gates"]:
                break
            await asyncio.sleep(0.05)
    entry = (await alice.get("/v1/audit?limit=1")).json()["entries"][0]["entry_id"]
    worker = (await alice.get("/v1/workers")).json()["workers"][0]["worker_id"]
    ids = {"run_id": waiting[0]["run_id"], "gate_id": waiting[0]["gate_id"], "entry_id": entry, "worker_id": worker}
    names = {"network": "support", "tool": "orders.refund", "version": 1, "step": 1}
    return ids | names | {"erasure_id": str(uuid.uuid4()), "notice_id": str(uuid.uuid4())}


async def pages_state(alice: httpx2.AsyncClient, known: Mapping[str, Any]) -> list[Any]:
    """Return what nobody who was refused can have changed."""
    paths = ("/v1/policy", "/v1/networks", "/v1/switches", "/v1/keys", f"/v1/gates/{known['gate_id']}", "/v1/budgets")
    states = [(await alice.get(path)).json() for path in paths]
    states[3] = [key for key in states[3]["keys"] if key["caller"] == FIELDS["caller"] or key["revoked_at"]]
    return [*states, (await alice.get(f"/v1/runs/{known['run_id']}")).json()["status"]]


async def strange_faults(client: httpx2.AsyncClient, known: Mapping[str, Any]) -> list[str]:
    """Return the pages and actions that know anything of what is *known* to another project than that of *client*."""
    wrong = []
    origin = {"Origin": str(client.base_url).rstrip("/")}
    for route, path in paths_of(known).items():
        if re.search(r"\{(run|gate|entry)_id\}", route):
            page = await (client.post(path, data=FIELDS, headers=origin) if route in NEEDS else client.get(path))
            wrong += [] if page.status_code == 404 else [f"{route}: {page.status_code}"]
        elif "{" not in route and route not in NEEDS and route not in READS:
            wrong += [route] if str(known["run_id"]) in (await client.get(path)).text else []
    return wrong
