"""Changing the policy: what is written is checked, shown as what it would change, and applied with a reason.

Nothing is applied over what its writer has not seen: the version that they began from goes along, and where another is
in force meanwhile the page shows what that changed, and keeps what was written.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from towpath_console.api import Api, ApiRefusalError
from towpath_console.drawings.changes import Changes, changes_between
from towpath_console.page import Asked, Done, Page
from towpath_console.pages.policy.policy_impact import impact_of
from towpath_console.pages.shared import together
from towpath_console.text import hidden_count

ABOUT_THE_TEXT = frozenset({400, 413, 422})
"""Refusals of what somebody wrote: they are shown beside it, so that nothing of it is lost."""

SHOWN_CELLS = 200
MAX_CHARS = 400_000
"""Of a policy that a form sends: more than that is applied from a file."""

_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)

SAMPLE = """\
kind: Policy
rules: []
"""


class PolicyFault(NamedTuple):
    """What is wrong with a policy, and in which line; 0 where that is not known."""

    line: int
    pointer: str
    detail: str


async def editor(asked: Asked) -> Page:
    """Make the form with the policy in force, or with the older version that the query names, to begin from."""
    current = await asked.api.get("/v1/policy")
    wanted = asked.query.get("version", "")
    began = await asked.api.get("/v1/policy", version=int(wanted)) if _is_number(wanted) else current
    return _page({"text": began["text"] or SAMPLE, "base": current["version"]})


async def check(asked: Asked, form: Mapping[str, str]) -> Page:
    """Say what is wrong with what was written, or what it would change: rules, cells of the matrix, past calls."""
    written = _Written.of(form)
    refused = await _refusal(asked.api, written, dry_run=True)
    if isinstance(refused, Page):
        return refused
    body = {"text": written.text}
    found = await together(
        now=asked.api.get("/v1/policy"),
        cells=asked.api.post("/v1/policy/diff/permissions", body),
    )
    impact = (await impact_of(asked.api, written.text, written.since)).model_dump(mode="json")
    lines = await _lines(found["now"]["text"], written.text)
    cells = found["cells"]
    words = [one for one in cells["changes"] if one["was"] != one["becomes"]]
    view = {
        "would_be": refused,
        "by_file": found["now"].get("applied_by") == "file",
        "lines": lines,
        "cells": words[:SHOWN_CELLS],
        "cells_left": len(words[SHOWN_CELLS:]) + cells["more"],
        "same_word": len(cells["changes"]) - len(words),
        "looked_at": cells,
        "impact": impact,
        "other": sum(group["calls"] for group in impact["groups"]),
    }
    data = {"would_be": refused, "permissions": cells, "impact": impact}
    return _page(written.shown() | view, data)


async def apply(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Put what was checked in force, with a reason, unless another version is in force by now."""
    written = _Written.of(form)
    if not written.note:
        fault = PolicyFault(0, "/note", "a reason is missing: it stands in the audit")
        return _page(written.shown() | {"faults": [fault], "why": "Nothing was applied"}, status=422)
    applied = await _refusal(asked.api, written, dry_run=False)
    if isinstance(applied, Page):
        return applied
    if not applied["changed"]:
        return Done("/policy/versions", f"It equals version {applied['version']}, which is in force: nothing was made.")
    said = f"Version {applied['version']} is in force, with {applied['rules']} rules."
    return Done(f"/policy/versions/{applied['version']}", said)


class _Written(NamedTuple):
    """What a form has of a policy: its text, why it is to be in force, over which version, and which calls to weigh."""

    text: str
    note: str
    base: int | None
    since: str

    @classmethod
    def of(cls, form: Mapping[str, str]) -> "_Written":
        """Read a form; browsers send line ends of their own."""
        base = form.get("base", "")
        text = form.get("text", "").replace("\r\n", "\n")
        return cls(text, form.get("note", "").strip(), int(base) if _is_number(base) else None, form.get("since", ""))

    def shown(self) -> dict[str, Any]:
        """Return what the form shows again."""
        return {"text": self.text, "note": self.note, "base": self.base, "since": self.since}


async def _refusal(api: Api, written: _Written, *, dry_run: bool) -> dict[str, Any] | Page:
    """Send what was written; return the answer, or the page that says why it is refused."""
    body = {"text": written.text, "source": "console", "note": written.note, "dry_run": dry_run}
    if len(written.text) > MAX_CHARS:
        fault = PolicyFault(0, "", f"a policy may have {MAX_CHARS:,} characters here: towpath policy apply FILE")
        return _page(written.shown() | {"faults": [fault], "why": "It is too long"}, status=413)
    try:
        return await api.post("/v1/policy", body | {"if_version": written.base})
    except ApiRefusalError as error:
        if error.problem.get("code") == "policy_moved":
            return await _moved(api, written)
        if error.status not in ABOUT_THE_TEXT:
            raise
        faults = faults_of(error.problem)
        why = str(error.problem.get("title") or "It is refused")
        data = {"problems": [fault._asdict() for fault in faults]}
        return _page(written.shown() | {"faults": faults, "why": why}, data, status=422)


async def _moved(api: Api, written: _Written) -> Page:
    """Make the page for somebody whose base is in force no more: what the others changed, and what they wrote."""
    now = await api.get("/v1/policy")
    theirs = await _lines(await _text_of(api, written.base), now["text"])
    own = await _lines(now["text"], written.text)
    view = {"moved": now, "began": written.base, "theirs": theirs, "lines": own}
    data = {"code": "policy_moved", "current": now["version"], "base": written.base}
    return _page(written.shown() | view | {"base": now["version"]}, data, status=409)


async def _text_of(api: Api, version: int | None) -> str:
    """Return the text that somebody began from; nothing where there is no such version."""
    try:
        return str((await api.get("/v1/policy", version=version))["text"]) if version else ""
    except ApiRefusalError as error:
        if error.status != 404:
            raise
        return ""


def faults_of(problem: Mapping[str, Any]) -> list[PolicyFault]:
    """Return everything that the API says against a policy, by line."""
    found = []
    for error in problem.get("errors") or ({"pointer": "", "detail": problem.get("detail", "")},):
        read = _LINE.fullmatch(str(error.get("detail") or ""))
        line, detail = (int(read[1]), read[2]) if read else (0, str(error.get("detail") or ""))
        found.append(PolicyFault(line, str(error.get("pointer") or ""), detail))
    return sorted(found)


async def _lines(before: str, after: str) -> Changes:
    return await asyncio.to_thread(changes_between, {"text": f"{before}\n"}, {"text": f"{after}\n"})


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _page(view: Mapping[str, Any], data: Mapping[str, Any] | None = None, status: int = 200) -> Page:
    usual = {"faults": (), "note": "", "since": "", "would_be": None, "moved": None, "lines": None, "tab": "edit"}
    whole = usual | dict(view) | {"hidden": hidden_count(view["text"])}
    return Page("Edit the policy", "policy/edit.html", dict(data or {"base": view["base"]}), whole, status=status)
