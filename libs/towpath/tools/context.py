"""What a tool may know about its own call.

A context only informs; everything in it was checked against the ticket before the tool is called: the ticket has the
digest of what the tool-access service says of the run, so that no worker, and nobody who can write to its stream, can
say that another caller asks.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Unpack
from uuid import UUID, uuid4

from towpath.foreign_names import CONTEXT
from towpath.tools.process import ProcessKeywords, ProcessResult, run_process
from towpath.tools.write_log import WriteLog
from towpath_contracts.problems.near_names import suggest_name
from towpath_fabric.clock import monotonic

NO_RUN = UUID(int=0)
"""Stands for a `root_run_id` that was not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Handed to a parameter annotated with it. Made without arguments it serves for calling a tool in a test.

    What an older tool-access service does not tell of the run is empty, also of a call that it accepted and a newer one
    sends to a worker: such a call may have `run_id` as its `root_run_id`, and has no `system_params`.
    """

    execution_id: UUID = field(default_factory=uuid4)
    """Names this call from the decision to the audit; the same when the call is tried again."""
    run_id: UUID = field(default_factory=uuid4)
    attempt: int = 1
    project: str = "default"
    tool: str = ""
    network: str = ""
    agent: str = ""
    """The key of the agent, in its network, whose decision the call is."""
    caller: str = ""
    """Who submitted the task, as the platform knows them: the name of the key, or of the person."""
    labels: Mapping[str, str] = field(default_factory=dict)
    root_run_id: UUID = NO_RUN
    """The run that the caller submitted, for what is kept for a run and all below it; else `run_id` itself."""
    system_params: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of this call that the platform filled in from the task; no model has chosen them."""
    deadline_s: float = float("inf")
    """When the call is cut off, on the monotonic clock."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the run was cancelled or the time is over."""
    write_log: WriteLog | None = None
    workspace: Path | None = None
    """A folder with the run's files, for a tool that asks for it: to read, or as a scratch copy whose changes count."""

    def __post_init__(self) -> None:
        if self.root_run_id == NO_RUN:
            object.__setattr__(self, "root_run_id", self.run_id)

    if not TYPE_CHECKING:  # type checkers know what is here

        def __getattr__(self, name: str) -> NoReturn:
            """Say of a *name* of other frameworks what there is in its place, else which one may have been meant."""
            said = f": {CONTEXT[name]}" if name in CONTEXT else suggest_name(name, dir(type(self)))
            msg = f"a ToolContext has no {name!r}{said}"
            raise AttributeError(msg)

    @property
    def idempotency_key(self) -> str:
        """The key to hand to the system that is called: equal for every attempt of this call."""
        return str(self.execution_id)

    @property
    def cancelled(self) -> bool:
        """Whether the call should stop. An async tool is interrupted; a plain function has to look here."""
        return self.stop.is_set()

    @property
    def remaining_s(self) -> float:
        """Seconds until the call is cut off; 0 when the time is over."""
        return max(0.0, self.deadline_s - monotonic())

    async def run(self, *command: str | Path, **options: Unpack[ProcessKeywords]) -> ProcessResult:
        """Run another program: `run_process`, limited to the time that this call has left.

        Raises what `run_process` raises.
        """
        limit_s, left_s = options.get("timeout_s"), self.remaining_s
        timeout_s = left_s if limit_s is None else min(float(limit_s), left_s)
        options.setdefault("write_log", self.write_log)
        options["timeout_s"] = timeout_s if timeout_s != float("inf") else None
        return await run_process(*command, **options)

    def log(self, message: str, *, level: str = "info", **fields: object) -> None:
        """Write a line to the run's tool log. It may be lost; never put a secret in it."""
        if self.write_log is not None:
            self.write_log(level, message, fields)
