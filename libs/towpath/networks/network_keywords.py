"""What may be said of a network beside its agents and its model, as keywords that editors and type checkers know.

They are the fields of NetworkSpec; `tests/unit/towpath/client/test_keywords.py` holds them against it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from towpath.declared_places import check_keywords
from towpath.foreign_names import NETWORK_OPTIONS

if TYPE_CHECKING:
    from towpath_contracts.base import JsonObject
    from towpath_contracts.networks.background import BackgroundRunSettings
    from towpath_contracts.networks.goal import GoalSettings
    from towpath_contracts.networks.swarm import SwarmSettings


class NetworkKeywords(TypedDict, total=False):
    """Options of a network: the most steps and failed calls of a run, its times in milliseconds, how it ends."""

    description: str
    max_steps: int
    max_tool_errors: int
    timeout_ms: int | None
    step_timeout_ms: int
    force_respond: bool
    force_respond_agent: str | None
    context_limit: int
    labels: Mapping[str, str]
    goal: "GoalSettings | JsonObject | None"
    background: "BackgroundRunSettings | JsonObject | None"
    on_loop: Literal["gate"] | None
    swarm: "SwarmSettings | JsonObject | None"
    fallback_models: Sequence[str]


class SwarmKeywords(NetworkKeywords, total=False):
    """Options of a swarm: its own, and of the outermost one those of a network."""

    max_handoffs: int
    max_parallel: int
    agent_steps: int


def check_network_keywords(given: Iterable[str], where: str, of: str = "Network") -> None:
    """Raise DeclarationError for a keyword that a network, or with *of* a Swarm, does not take; *where* is its line."""
    fields = SwarmKeywords.__annotations__ if of == "Swarm" else NetworkKeywords.__annotations__
    first = ("name", "agents", "mode", "flow", "model") if of == "Swarm" else ("name", "agents", "model")
    check_keywords(given, (*first, *fields), where, of, NETWORK_OPTIONS)
