"""Between a run and its calls beside the way of a worker: outcomes of internal tools, and files of a call.

What a run has applied itself is its own word, and only the orchestrator may say it; files are had by a ticket.
"""

from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message, Token
from towpath_contracts.tools.calls import ToolFailure


class RecordInternalOutcome(Message):
    """Orchestrator to TAS: what came of a call of an internal tool, which the run has applied."""

    run_id: UUID
    project: Token
    execution_id: UUID
    tool: str
    status: Literal["succeeded", "failed"]
    result: Any = None
    failure: ToolFailure | None = None


class InternalOutcomeAnswer(Message):
    """TAS's answer: the ledger holds the outcome. `refused` says why it never will; then nothing was changed."""

    execution_id: UUID
    refused: str = ""


class GetWorkspaceChunk(Message):
    """Worker to TAS: one piece of the list of files that its call works with, or of a file in it; by its ticket."""

    digest: str
    index: int = Field(default=0, ge=0)
    ticket: str
