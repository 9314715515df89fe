"""Providers of models: which of them a decider could ask now, and what the others lack.

Asked for as a prompt is: what is configured is looked for, and neither shown nor tried.
"""

from typing import Any, NamedTuple
from urllib.parse import quote

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Page, PageRoute
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
    listed = (await asked.api.get("/v1/networks"))["networks"]
    network = listed[0]["name"] if listed else ""
    found = await together(**{name: _readiness(asked.api, network, name) for name in PROVIDERS})
    rows = [{**PROVIDERS[name]._asdict(), **found[name]} for name in PROVIDERS]
    view = {"tab": "providers", "rows": rows, "known": any(row["state"] != "not known" for row in rows)}
    return Page("Providers", "providers.html", {"providers": rows}, view)


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
