"""By what lists are narrowed, as keywords that editors and type checkers know.

Each names fields of the message that the platform takes; `tests/unit/towpath/client/test_keywords.py` holds them
against it.
"""

from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from towpath_contracts.base import JsonObject
    from towpath_contracts.budgets import OnSoft
    from towpath_contracts.dead_letters import LetterStatus
    from towpath_contracts.tools.erasures import ErasureStatus


class RunFilters(TypedDict, total=False):
    """Of `client.runs`; `before` is the run that ended the page before, `limit` at most 200."""

    status: str | None
    network: str | None
    label: str | None
    kind: str | None
    parent_run_id: "UUID | str | None"
    root_run_id: "UUID | str | None"
    depth: int | None
    thread_id: "UUID | str | None"
    before: "UUID | str | None"
    limit: int


class AuditFilters(TypedDict, total=False):
    """Of `client.audit.search`; `since` and `until` are inclusive, `before` is the entry that ended the page before."""

    run_id: "UUID | str | None"
    execution_id: "UUID | str | None"
    agent_key: str | None
    tool: str | None
    verdict: str | None
    phase: str | None
    actor: str | None
    args_digest: str | None
    since: datetime | str | None
    until: datetime | str | None
    before: int | None
    limit: int | None


class PayloadSelection(TypedDict, total=False):
    """Which payloads of the audit are to be erased: those that fit all that is given. `before` is exclusive."""

    run_id: "UUID | str | None"
    execution_id: "UUID | str | None"
    caller: str | None
    before: datetime | str | None


class ErasureFilters(TypedDict, total=False):
    """Of `client.audit.erasures`."""

    status: "ErasureStatus | None"
    before: "UUID | str | None"
    limit: int | None


class DeadLetterFilters(TypedDict, total=False):
    """Of `client.dead_letters.list`."""

    status: "LetterStatus | None"
    stream: str | None
    before: int | None
    limit: int | None


class BudgetKeywords(TypedDict, total=False):
    """Of `client.budgets.set`: what may be spent, and from which share on who spends it is told."""

    usd: float | None
    tokens: int | None
    model_calls: int | None
    tool_calls: int | None
    soft: float | None
    on_soft: "OnSoft | None"


class AccessDetails(TypedDict, total=False):
    """Of `client.policy.check`: what else is known of the call."""

    agent_type: str
    operation: str | None
    args: "JsonObject"
    caller: str
    step: int
    labels: "Mapping[str, str]"
    grant: "Sequence[JsonObject] | None"
    used: "Mapping[str, int]"
    spent_usd: float | None
    run_id: "UUID | str | None"
    origin: "JsonObject | None"
    rates: bool
