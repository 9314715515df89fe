"""Model strings: `provider:model`, of a provider that deciders serve, or `agent:name` for an agent in user code.

One place says which there are, so that whoever refuses a string names the same providers and the same way out.
"""

from towpath_contracts.problems.near_names import nearest_name
from towpath_contracts.subjects import AGENT, DEFAULT_POOL, pool_of

PROVIDERS = frozenset({"gemini", "google", "openai", "anthropic", "local", "scripted"})
"""Prefixes of model strings that a decider serves."""

WITH_NATIVE_TOOLS = frozenset({"anthropic", "local", "openai"})
"""Providers whose models may be offered their tools for native calls, beside the answer's own form."""

OTHER_SERVERS = (
    "another server that speaks OpenAI's chat completions is asked as openai:NAME or local:NAME, with its address in "
    "TOWPATH_OPENAI_BASE_URL or TOWPATH_LOCAL_URL of the decider"
)
LISTED_BY = "towpath explain model_unknown"
"""The command that lists the providers, and says how to ask a server that is none of them."""

SHOWN_CHARS = 64

_FAMILIES = {"gpt-": "openai", "o3": "openai", "o4": "openai", "claude-": "anthropic", "gemini-": "gemini"}
"""How names of models begin that people know without their provider."""


def model_is_known(model: str) -> bool:
    """Return whether *model* is `provider:name` of a provider that is served, or the name of an agent in user code."""
    provider, _, name = model.partition(":")
    if provider == AGENT:
        return pool_of(model, "any") != DEFAULT_POOL  # its name can be a pool's
    return provider in PROVIDERS and bool(name) and name.isprintable()


def model_fault(model: str) -> str:
    """Return why no model can be meant by *model*, with what can; empty where one may be."""
    if model_is_known(model):
        return ""
    provider, colon, name = model.partition(":")
    shown = repr(model[:SHOWN_CHARS])
    if colon and provider in PROVIDERS | {AGENT}:
        return f"{shown} names no model that {provider} can have; write {provider}:NAME"
    what = f"no provider is called {provider[:SHOWN_CHARS]!r}" if colon and name else "that is not provider:model"
    meant = _meant_model(model)
    if meant and len(model) <= SHOWN_CHARS:
        return f"{shown}: {what}; did you mean {meant!r}? Every provider: {LISTED_BY}"
    served = ", ".join(sorted({AGENT, *PROVIDERS}))
    return f"{shown}: {what}; there are {served}. How another server is asked: {LISTED_BY}"


def _meant_model(model: str) -> str:
    """Return the model string that was probably meant; empty where none is near."""
    provider, colon, name = model.partition(":")
    if not colon:
        return next((f"{maker}:{model}" for begin, maker in _FAMILIES.items() if model.startswith(begin)), "")
    near = nearest_name(provider, sorted({AGENT, *PROVIDERS}))
    return f"{near}:{name}" if near is not None and name else ""
