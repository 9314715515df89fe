"""Doing something to many runs: which they are, counted before anything is changed, and what became of each."""

from collections.abc import Mapping
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from towpath_contracts.base import ClientMessage, Message, MessagePart
from towpath_contracts.runs.statuses import RunStatus

BulkAction = Literal["cancel", "retry", "label", "export"]

MAX_SELECTED = 500
"""Runs of one selection."""

MAX_AT_ONCE = 100
"""Runs of one request that changes them."""

LABEL_CHARS = 256
MAX_LABELS = 32


def _short(labels: Mapping[str, str]) -> Mapping[str, str]:
    if any(not key or len(key) > LABEL_CHARS or len(value) > LABEL_CHARS for key, value in labels.items()):
        msg = f"a label has a key, and neither key nor value more than {LABEL_CHARS} characters"
        raise ValueError(msg)
    return labels


Labels = Annotated[dict[str, str], Field(max_length=MAX_LABELS), AfterValidator(_short)]
LabelKey = Annotated[str, Field(min_length=1, max_length=LABEL_CHARS)]


class RunFilter(ClientMessage):
    """Which runs, as in their list: of those that callers submitted, unless a run above them is named."""

    status: RunStatus | None = None
    network: Annotated[str, Field(max_length=128)] | None = None
    kind: Annotated[str, Field(max_length=32)] | None = None
    label: Annotated[str, Field(max_length=513)] | None = None
    parent_run_id: UUID | None = None
    root_run_id: UUID | None = None
    thread_id: UUID | None = None


class BulkSelection(Message):
    """The runs that a filter gives and *action* is possible for, newest first. `whole`: there are no more of them."""

    action: BulkAction
    count: int
    whole: bool
    by_status: dict[str, int]
    run_ids: tuple[UUID, ...]


class BulkResult(MessagePart):
    """What became of one run: nothing but its id where it was done; `code` says why it was not.

    `new_run_id` is the run that a retry began.
    """

    run_id: UUID
    code: str = ""
    detail: str = ""
    new_run_id: UUID | None = None


class BulkDone(Message):
    """What became of each run, in the order in which they were named."""

    action: BulkAction
    done: int
    results: tuple[BulkResult, ...]


class LabelRun(Message):
    """Gateway to orchestrator: add labels to a run, or change them, and take others away."""

    project: str
    run_id: UUID
    labels: Labels = Field(default_factory=dict)
    remove: tuple[LabelKey, ...] = Field(default=(), max_length=MAX_LABELS)
    actor: str
    reason: str = Field(default="", max_length=2_000)
    key_prefix: str = ""
    key_commitment: str = ""
