"""What a worker's or an agent's process was started with, handed from one process to another as a single argument.

The command line alone reads what people type. The parser that it has for that would be a fifth of the start of a
process that only serves tools, so such a process is given the result instead, and has no parser of its own.
"""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict

HANDED_OVER: Final = "--arguments"
"""What stands before the document with the arguments."""

DRAIN_SIGNAL: Final = signal.SIGUSR1
"""Has a worker take no more calls, and end once those that it has are finished, however long that takes."""


class ProcessArguments(BaseModel):
    """Arguments that are read already."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def words(self) -> tuple[str, str]:
        """Return what follows `python -m MODULE`; what has its default is left out, so that `ps` stays readable."""
        return (HANDED_OVER, self.model_dump_json(exclude_defaults=True))

    @classmethod
    def handed_over(cls, words: Sequence[str]) -> Self | None:
        """Return what `words` wrote; None where *words* were typed by somebody."""
        match list(words):
            case [first, document] if first == HANDED_OVER:
                return cls.model_validate_json(document)
        return None


class WorkerArguments(ProcessArguments):
    """Of `towpath worker`."""

    modules: tuple[str, ...] = ()
    concurrency: int | None = None
    mcp: Path | None = None
    sandbox: Literal["required", "preferred", "none"] | None = None
    builtin: bool = False
    toolsets: bool = False
    inspect: bool = False
    inventory: bool = False
    """Print as JSON what it would serve, or the problem that prevents it, and end; nobody types this."""


class AgentArguments(ProcessArguments):
    """Of `towpath agents serve`."""

    target: str
    count: int = 1
    concurrency: int | None = None
    name_only: bool = False
