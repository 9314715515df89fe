"""Providers of models: which of them a decider could ask now, what the others lack, and trying one of their models.

The list is asked for as a prompt is: what is configured is looked for, and neither shown nor tried. A model is tried
when somebody says so: that is a call which is paid for.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Page, PageRoute
from towpath_console.pages.shared import together


class ProviderAccess(NamedTuple):
    """A provider, and how a network names a model of it."""

    title: str
    example: str


PROVIDERS = {
    "gemini": ProviderAccess("Google Gemini", "gemini:gemini-2.5-flash"),
    "openai": ProviderAccess("OpenAI", "openai:gpt-5-mini"),
    "anthropic": ProviderAccess("Anthropic", "anthropic:claude-sonnet-4-6"),
    "local": ProviderAccess("A server of your own", "local:qwen3"),
}


async def providers(asked: Asked) -> Page:
    """Make the page; where no network is published nobody can be asked for a prompt, so nothing is known."""
    return await _page(asked, {})


async def check_model(asked: Asked, form: Mapping[str, str]) -> Page:
    """Have a decider ask one model, and show the page with what came of it."""
    model = form.get("model", "").strip()
    return await _page(asked, await asked.api.post("/v1/models/check", {"model": model}))


async def _page(asked: Asked, checked: Mapping[str, Any]) -> Page:
    listed = (await asked.api.get("/v1/networks"))["networks"]
    network = listed[0]["name"] if listed else ""
    found = await together(**{name: _readiness(asked.api, network, name) for name in PROVIDERS})
    rows = [{"name": name, **PROVIDERS[name]._asdict(), **found[name]} for name in PROVIDERS]
    tried = str(checked.get("model", "")).partition(":")[0].replace("google", "gemini")
    view = {
        "tab": "providers",
        "rows": rows,
        "known": any(row["state"] != "not known" for row in rows),
        "checked": checked,
        "tried": tried,
    }
    data = {"providers": rows, "checked": checked} if checked else {"providers": rows}
    return Page("Providers", "providers.html", data, view)


async def _readiness(api: Api, network: str, provider: str) -> dict[str, Any]:
    if not network:
        return {"state": "not known", "missing": ""}
    try:
        answer = await api.post(f"/v1/networks/{quote(network)}/prompt", {"model": PROVIDERS[provider].example})
    except ApiRefusalError:
        return {"state": "not known", "missing": ""}
    missing = answer.get("model_missing", "")
    return {"state": "not configured" if missing else "configured", "missing": missing}


PAGES = (PageRoute("/settings/providers", providers, "/settings"),)
ACTIONS = (ActionRoute("/settings/providers", check_model, "runs:operate", "/settings"),)
