"""A run in the harness, what it came to, and the gates at which it waits."""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Never, overload
from uuid import UUID

from towpath.errors import RunFailedError
from towpath.tasks.outputs import Output, answer_of
from towpath_contracts.base import JsonObject
from towpath_contracts.events.log import Event, LogEntry
from towpath_contracts.runs.views import GateView, RunView
from towpath_contracts.text import name_hidden, truncate
from towpath_readings.tool_calls import ToolCallRecord, recorded_calls, recorded_denials
from towpath_readings.unsuccessful_calls import failed_call, refused_decision, summaries_of_unsuccessful
from towpath_testing.missing_gates import call_refused_in_test
from towpath_testing.refusals import problem_in_test

Resolve = Callable[[GateView, str, str, str, JsonObject | None], Awaitable[None]]
"""Takes a gate, a verdict, its reason, who says so, and changed arguments."""


class HarnessGate:
    """A gate that waits. What it asks for stands in its fields; a verdict lets the run go on."""

    def __init__(self, view: GateView, resolve: Resolve) -> None:
        self.view = view
        self._resolve = resolve

    def __repr__(self) -> str:
        what = f"{self.tool} {self.args}" if self.tool else self.reason
        return f"<gate {self.kind}: {what}>"

    @property
    def kind(self) -> str:
        """What kind of gate it is: `approval`, `budget`, `manual`, …"""
        return self.view.gate_type

    @property
    def run_id(self) -> UUID:
        """The run that waits."""
        return self.view.run_id

    @property
    def reason(self) -> str:
        """Why it was opened, in words."""
        return self.view.reason

    @property
    def summary(self) -> str:
        """What a person is asked, in a sentence: the tool's own `summary=` with the arguments of the call."""
        return self.view.summary

    @property
    def rule(self) -> str:
        """The rule that asks for an approval; empty for other gates."""
        return str(self.view.detail.get("rule") or "")

    @property
    def tool(self) -> str:
        """The tool whose call waits; empty where none does."""
        return str(self.view.detail.get("tool") or "")

    @property
    def args(self) -> JsonObject:
        """The arguments of the call that waits."""
        found = self.view.detail.get("args")
        return found if isinstance(found, dict) else {}

    async def approve(self, reason: str = "", *, edit: JsonObject | None = None, by: str = "reviewer") -> None:
        """Let it happen; with *edit* as it is but for these arguments."""
        if edit is None:
            await self._resolve(self.view, "approved", reason, by, None)
        else:
            await self._resolve(self.view, "edit", reason, by, {**self.args, **edit})

    async def deny(self, reason: str, *, by: str = "reviewer") -> None:
        """Refuse it; the model sees *reason*."""
        await self._resolve(self.view, "denied", reason, by, None)

    async def resolve(self, verdict: str, reason: str = "", *, by: str = "reviewer") -> None:
        """Settle a gate that takes another verdict: `retry`, `happened`, `did_not_happen` or `stop`."""
        await self._resolve(self.view, verdict, reason, by, None)


class RunResult:
    """What a run came to. `view` is the run as the API shows it, `events` its log."""

    def __init__(self, view: RunView, read_log: Callable[[], tuple[LogEntry, ...]], lack: str = "") -> None:
        """*read_log* reads the log, once somebody asks for it; *lack* says why its harness has no rules."""
        self.view = view
        self._read_log = read_log
        self._lack = lack

    def __repr__(self) -> str:
        answer = json.dumps(self.view.final, ensure_ascii=False) if self.status == "completed" else ""
        said = f"{self.status} {self.view.reason}: {self.text or self.view.message or answer}"
        told = [call_refused_in_test(entry.event, self._lack) for entry in self.entries]
        refused = [call for call in told if call is not None]
        failed = [call for entry in self.entries if (call := failed_call(entry.event)) is not None]
        decisions = [one for entry in self.entries if (one := refused_decision(entry.event)) is not None]
        return f"<run {'; '.join(filter(None, (said, *summaries_of_unsuccessful(refused, failed, decisions))))}>"

    def in_one_line(self, most: int) -> str:
        """Return what it came to in *most* characters of a terminal's line, whatever the model and its tools wrote."""
        return truncate(name_hidden(" ".join(repr(self).split())), most)

    @cached_property
    def entries(self) -> tuple[LogEntry, ...]:
        """Its log: the events with their places and times."""
        return self._read_log()

    @property
    def status(self) -> str:
        """How it ended: `completed`, `failed`, `cancelled`, …"""
        return self.view.status

    @property
    def reason(self) -> str:
        """Why it ended so, as a stable word."""
        return self.view.reason

    @property
    def text(self) -> str:
        """The answer's message; empty where there is none."""
        return self.view.text

    @property
    def output(self) -> JsonObject:
        """The whole answer; empty where there is none."""
        return self.view.final or {}

    def as_(self, output_type: type[Output]) -> Output:
        """Return the answer as a pydantic model, dataclass or TypedDict; raises RefusedError `output_invalid`.

        Raises RunFailedError where there is no answer.
        """
        try:
            return answer_of(self.view, output_type)
        except RunFailedError as error:
            raise RunFailedError(problem_in_test(error.problem)) from None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of its log, in order."""
        return tuple(entry.event for entry in self.entries)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that decided, in order, each once for every time that it was handed the run."""
        found: list[str] = []
        for event in self.events:
            key = getattr(event, "agent_key", "") if event.type == "decision_received" else ""
            if key and found[-1:] != [key]:
                found.append(key)
        return tuple(found)

    def tool_calls(self, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that ran, in the order of their ends; those of one tool where it is named."""
        return recorded_calls(self.events, tool)

    def denied_calls(self, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that were refused, by the policy or by a person."""
        return recorded_denials(self.events, tool)


RETURNED: deque[RunResult] = deque(maxlen=3)
"""The last results that a test was given, for what pytest says of its failure."""


def no_result_yet(name: str, says: str) -> AttributeError:
    """Return the error of who asks a run that was begun for *name*; a run without asyncio *says* no `await`."""
    known = hasattr(RunResult, name) or name == "view"
    said = f": result = {says}run.result(), then result.{name}" if known else ""
    return AttributeError(f"a run that was begun has no {name!r}{said}", name=name)


class HarnessRun:
    """A run that was begun."""

    def __init__(self, run_id: UUID, result: Callable[[UUID, str | float], Awaitable[RunResult]], cancel: Any) -> None:
        self.run_id = run_id
        self._result = result
        self._cancel = cancel

    if not TYPE_CHECKING:  # a type checker tells of a name that there is not

        def __getattr__(self, name: str) -> Never:
            raise no_result_yet(name, "await ")

    @overload
    async def result(self, timeout: str | float = "10s", *, as_: type[Output]) -> Output: ...

    @overload
    async def result(self, timeout: str | float = "10s") -> RunResult: ...

    async def result(self, timeout: str | float = "10s", *, as_: type[Output] | None = None) -> RunResult | Output:
        """Return what it came to, once it has ended; raises RunTimeoutError that says what it waits for.

        With *as_* its answer alone is returned, as `RunResult.as_` does.
        """
        found = await self._result(self.run_id, timeout)
        return found if as_ is None else found.as_(as_)

    async def cancel(self, reason: str = "") -> None:
        """Ask it to stop."""
        await self._cancel(self.run_id, reason)
