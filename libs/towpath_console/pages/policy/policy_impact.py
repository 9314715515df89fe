"""What another policy would have done: to recorded calls, and to live ones beside the policy in force."""

from collections.abc import Mapping
from typing import Any

from towpath_console import text
from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Done, Page
from towpath_console.pages.shared import with_zone
from towpath_contracts.tools.policy import PolicyImpact, merge_diffs

PIECES = 5
"""Of the past, of 2,000 calls each, that one page compares."""

ABOUT_THE_POLICY = frozenset({400, 409, 413, 422})


async def editor(asked: Asked) -> Page:
    """Make the form, with the policy in force to begin from."""
    policy = await asked.api.get("/v1/policy")
    return _page(policy["text"], "", {}, {"version": policy["version"]})


async def compare(asked: Asked, form: Mapping[str, str]) -> Page:
    """Say which recorded calls the pasted policy would have decided otherwise; nothing is changed."""
    written, since = _written(form), form.get("since", "")
    try:
        impact = await impact_of(asked.api, written, since)
    except ApiRefusalError as error:
        if error.status not in ABOUT_THE_POLICY:
            raise
        return _page(written, since, {}, {"problem": error.problem})
    found = impact.model_dump(mode="json")
    return _page(written, since, found, {"other": sum(group["calls"] for group in found["groups"])})


async def shadow(asked: Asked) -> Page:
    """Make the page of the shadow policy and of the live calls that it would have decided otherwise."""
    found = await asked.api.get("/v1/policy/shadow")
    return Page("Shadow policy", "policy/shadow.html", found, {"shadow": found, "tab": "shadow"})


async def set_shadow(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Weigh live calls by the pasted policy from now on."""
    written = _written(form)
    body = {"text": written, "source": "console", "note": form.get("note", "")}
    try:
        await asked.api.put("/v1/policy/shadow", body)
    except ApiRefusalError as error:
        if error.status not in ABOUT_THE_POLICY:
            raise
        return _page(written, form.get("since", ""), {}, {"problem": error.problem})
    return Done("/policy/shadow", "Live calls are weighed by it from now on. It is never obeyed.")


async def end_shadow(asked: Asked, form: Mapping[str, str]) -> Done:
    """Weigh no call by the shadow any more."""
    await asked.api.delete("/v1/policy/shadow", note=form.get("note", ""))
    return Done("/policy/shadow", "The shadow has ended; what it found stays readable.")


def _written(form: Mapping[str, str]) -> str:
    """Return the text of a form as its writer sees it: browsers send line ends of their own."""
    return form.get("text", "").replace("\r\n", "\n")


async def impact_of(api: Api, written: str, since: str) -> PolicyImpact:
    """Compare piece by piece, newest calls last, until all calls since then or PIECES are done."""
    pieces: list[PolicyImpact] = []
    asked: dict[str, Any] = {"text": written, "since": with_zone(since) if since else None}
    while len(pieces) < PIECES:
        pieces.append(PolicyImpact.model_validate(await api.post("/v1/policy/diff", asked)))
        if pieces[-1].next_after is None:
            break
        asked |= {"after": pieces[-1].next_after, "last": pieces[-1].last}
    return merge_diffs(pieces)


def _page(written: str, since: str, impact: Mapping[str, Any], more: Mapping[str, Any]) -> Page:
    whole = text.visible(written) == written
    view = {
        "impact": impact,
        "text": written if whole else "",
        "whole": whole,
        "since": since,
        "tab": "compare",
        **more,
    }
    return Page("Compare a policy", "policy/compare.html", dict(impact) or dict(more), view)
