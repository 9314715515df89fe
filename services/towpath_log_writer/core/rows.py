"""Rows of history while a batch is put together, and JSON as Postgres can store it.

A row holds only what this batch says about it; None means "not in this batch". The statements in queries.sql merge it
with what is stored.
"""

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from towpath_contracts.decisions.request import Cost, Usage

RESULT_CHARS = 1_000
"""A result up to this size is shown within its step; a larger one only in tool_execution."""

MOST_CALLS, MOST_TOKENS, MOST_USD = 10**6, 10**12, 1e6
"""What one answer adds to costs at most: many runs share a row, which has to hold all of them."""

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def json_text(value: Any) -> str:
    """Write *value* as JSON that Postgres takes: without U+0000, and with infinities as strings."""
    text = to_json(value, inf_nan_mode="strings").decode()
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text


def plain(text: str) -> str:
    """Return *text* without the character that a Postgres text can't hold."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


@dataclass(slots=True, kw_only=True)
class NewRunRow:
    """A row of agent_execution_history."""

    run_id: UUID
    project: str
    agent_id: str
    kind: str
    network: str
    version: int
    caller: str
    at: datetime
    snapshot: dict[str, Any]
    parent_id: UUID | None = None


@dataclass(slots=True, kw_only=True)
class RunRowChange:
    """What became of a run that exists."""

    run_id: UUID
    status: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    total_steps: int | None = None
    final_status: str | None = None
    reason: str | None = None
    escalation_reason: str | None = None
    total_cost_usd: float | None = None
    total_tokens: int | None = None
    snapshot: dict[str, Any] = field(default_factory=dict)
    waits: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class StepRow:
    """What one batch has about a step: one row of agent_execution_steps.

    `attempts`, `tokens` and `cost` add to what is stored.
    """

    run_id: UUID
    step: int
    project: str
    began_at: datetime
    ended_at: datetime
    agent_id: str | None = None
    epoch: int | None = None
    input_preview: str | None = None
    reasoning: str | None = None
    action: str | None = None
    result: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] | None = None
    success: bool | None = None
    error: str | None = None
    attempts: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    decisions: dict[str, Any] = field(default_factory=dict)
    progress: float | None = None
    confidence: float | None = None

    def add_result(self, value: bool) -> None:
        """Note how something in the step went; a step succeeds when everything in it does."""
        self.success = value if self.success is None else self.success and value

    def set_verdict(self, value: bool) -> None:
        """Note what the run itself made of the step, after all attempts; it stands above how each of them went."""
        self.success = value
        if value:
            self.error = None


@dataclass(slots=True, kw_only=True)
class CostRow:
    """What one batch adds to the costs of a day: those of one agent of a run with one model; without both, the run.

    `unpriced` counts answers whose price nobody knows; they add no money.
    """

    run_id: UUID
    day: date
    agent_id: str = ""
    model: str = ""
    runs: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def add(self, usage: Usage, cost: Cost) -> None:
        """Add what one answer used, within bounds: an agent in user code may say anything."""
        self.calls += min(max(0, usage.model_calls), MOST_CALLS)
        self.tokens += min(max(0, usage.total_tokens), MOST_TOKENS)
        self.usd += min(max(0.0, cost.usd or 0.0), MOST_USD)
        self.unpriced += cost.usd is None and usage.model_calls > 0


@dataclass(slots=True, kw_only=True)
class ToolCallRow:
    """What one batch has about a tool call: one row of the history's tool_execution."""

    run_id: UUID
    execution_id: UUID
    project: str
    step: int
    call_index: int
    agent_id: str
    tool: str
    status: str
    args: str | None = None
    result: str | None = None
    result_digest: str | None = None
    result_bytes: int | None = None
    blob: bool | None = None
    failure: str | None = None
    denial: str | None = None
    duration_ms: int | None = None
    worker: str | None = None
    policy_version: int | None = None
    requested_at: datetime | None = None
    finished_at: datetime | None = None
