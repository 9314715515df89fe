"""Following a run: its events as lines for a person or as JSON lines for a program, and asking at its gates.

Following changes a run only by what a person decides at a gate, and stopping to follow never stops the run.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from towpath.cli.runs.call_edit import edited_arguments, fault_lines
from towpath.cli.runs.event_lines import CALL_WIDTH, REASON_WIDTH, EventFormatter, EventLine, answer_text, summary
from towpath.cli.runs.run_waits import calls_without_worker
from towpath.cli.shared.confirmation import prompt
from towpath.cli.shared.output import OutputPrinter, print_notice
from towpath.cli.shared.text import cut_words, one_line, plain_json, printable, shorten, sinks_first
from towpath.client.client import Client
from towpath.errors import DeniedError, TowpathError
from towpath_contracts.events.log import (
    AnyEvent,
    ChildEnded,
    ChildGateWaitChanged,
    ChildStarted,
    DecisionRefused,
    DecisionRequested,
    EffectResent,
    GateClosed,
    GateOpened,
    InstructionIssued,
    LogEntry,
    RunFinished,
    ToolCallDenied,
    ToolCallFinished,
)
from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.runs.run_control import RUN_PAUSED
from towpath_contracts.switches import PAUSED
from towpath_contracts.text import join_sentences
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_readings.stream.tree import TreeEntry
from towpath_readings.unsuccessful_calls import failed_call, refused_call, summaries_of_unsuccessful, told_call

_CALL_FACTS = (
    ("worker", "worker"),
    ("claimed", "claimed_at"),
    ("lease until", "lease_until"),
    ("its probe found", "probe"),
)

UNANSWERED_S = 5.0
"""After so long without an answer a notice says that the run waits for an agent in user code, or for a worker."""

ANSWER_WIDTH = 60
"""Of an answer that is none; longer ones are cut."""

_ANSWERS = {
    **dict.fromkeys(("a", "approve", "y", "yes"), "a"),
    **dict.fromkeys(("d", "deny", "n", "no"), "d"),
    **dict.fromkeys(("e", "edit"), "e"),
    **dict.fromkeys(("s", "skip"), "s"),
}
"""What may be answered at a gate, as whole words: `amount=60` is an edit that nobody asked for yet, and no approval."""

_NO_REASON = "\x04"
"""What the end of all input is, where a reason is asked for; no line has this sign."""

GateHandler = Callable[[Client, GateOpened, OutputPrinter], Awaitable[None]]


@dataclass(slots=True)
class RunFollower:
    """Shows one run. *at_gate* is asked whenever a gate opens that still waits; None only shows it."""

    client: Client
    out: OutputPrinter
    on_gate: GateHandler | None = None
    formatter: EventFormatter = field(default_factory=EventFormatter)
    children: bool = False
    """Whether the runs below are followed too, each line of theirs with the names that lead to it.

    Without it their gates are shown, and asked at, all the same: the run waits for them and does not say so itself.
    """

    first_entry: LogEntry | None = None
    unanswered_s: float = UNANSWERED_S
    _unanswered: asyncio.Task[None] | None = field(default=None, init=False)
    _children: dict[UUID, EventFormatter] = field(default_factory=dict, init=False)
    _ended_children: list[ChildEnded] = field(default_factory=list, init=False)
    _gates_below: asyncio.Task[None] | None = field(default=None, init=False)
    _refused: list[str] = field(default_factory=list, init=False)
    _failed: list[str] = field(default_factory=list, init=False)
    _sees_all: bool = field(default=True, init=False)

    async def follow(self, run_id: UUID, after: int = 0) -> RunFinished | None:
        """Show every event after seq *after* until the run ends; returns its end."""
        self._sees_all = not after
        try:
            async for entry in self.client.events(run_id, after, children=self.children):
                if isinstance(entry, TreeEntry) and entry.path:
                    await self._show_child_event(entry)
                    continue
                if isinstance(entry.event, ChildStarted | ChildGateWaitChanged) and not self.children:
                    self._gates_below = self._gates_below or asyncio.create_task(self._show_gates_below(run_id))
                await self._show(entry)
                if isinstance(entry.event, RunFinished):
                    return entry.event
        finally:
            self._expect_answer(None)
            if self._gates_below is not None:
                self._gates_below.cancel()
                await asyncio.wait([self._gates_below])
        return None

    async def _show_gates_below(self, run_id: UUID) -> None:
        """Show what waits for people in the runs below, and nothing else of them."""
        try:
            async for entry in self.client.events(run_id, children=True):
                if isinstance(entry, TreeEntry) and entry.path:
                    lines = self._child_lines(entry)
                    if isinstance(entry.event, GateOpened) and await _is_pending(self.client, entry.event):
                        self._write_child_lines(entry, lines)
                        await self._at_gate(entry.event)
        except TowpathError as error:
            print_notice(f"what waits in the runs below is not shown: {one_line(str(error))}")

    async def _show_child_event(self, entry: TreeEntry) -> None:
        """Show an event of a child run, with the names that lead to it; its gates are asked as well."""
        if self.out.format == "jsonl":
            self.out.line(entry.model_dump(mode="json"))
        self._write_child_lines(entry, self._child_lines(entry))
        if isinstance(entry.event, RunFinished):
            where = one_line("/".join(entry.path), 40)
            self.out.write(f"    {where} · {entry.event.status}: {one_line(entry.event.reason, 60)}", "dim")
        elif isinstance(entry.event, GateOpened):
            await self._at_gate(entry.event)

    def _child_lines(self, entry: TreeEntry) -> list[EventLine]:
        return self._children.setdefault(entry.run_id, EventFormatter()).lines(entry.event)

    def _write_child_lines(self, entry: TreeEntry, lines: list[EventLine]) -> None:
        for line in lines:
            self._write(f"    {one_line('/'.join(entry.path), 40)} ", line)

    def _write(self, start: str, line: EventLine) -> None:
        """Write a line behind *start*, folded where the terminal is narrow."""
        if self.out.for_people:
            for text in line.folded(self.out.console.width - len(start)):
                self.out.write(f"{start}{text}", line.style)
                start = " " * len(start)

    async def _at_gate(self, gate: GateOpened) -> None:
        await (self.on_gate or print_gate_notice)(self.client, gate, self.out)

    def _expect_answer(self, event: AnyEvent | None) -> None:
        """Print a notice after a while, where *event* asks an agent or a tool in user code and no other follows."""
        if isinstance(event, EffectResent):
            return  # the same is asked once more: nobody has answered
        if self._unanswered is not None:
            self._unanswered.cancel()
            self._unanswered = None
        if isinstance(event, DecisionRequested) and event.model.startswith("agent:"):
            name = event.model.partition(":")[2]
            notice = f"waits for an agent named {name}; serve it with: towpath agents serve MODULE:CLASS"
            self._unanswered = asyncio.create_task(self._tell_later(notice))
        elif isinstance(event, InstructionIssued | GateClosed):
            self._unanswered = asyncio.create_task(self._tell_of_workers())

    async def _tell_later(self, notice: str) -> None:
        await asyncio.sleep(self.unanswered_s)
        print_notice(notice)

    async def _tell_of_workers(self) -> None:
        """Print which calls no worker takes, once there are any; tools may be slow, so it looks ever more rarely."""
        told: list[str] = []
        wait_s = self.unanswered_s
        while not told:
            await asyncio.sleep(wait_s)
            told = await calls_without_worker(self.client)
            wait_s *= 2
        for notice in told:
            print_notice(notice)

    async def _show(self, entry: LogEntry) -> None:
        self.first_entry = self.first_entry or entry
        self._expect_answer(entry.event)
        if self.out.format == "jsonl":
            self.out.line(entry.model_dump(mode="json"))
        for line in self.formatter.lines(entry.event):
            self._write("  ", line)
        match entry.event:
            case ChildEnded():
                self._ended_children.append(entry.event)
            case DecisionRefused() | ToolCallDenied() if (refused := refused_call(entry.event)) is not None:
                self._refused.append(self._of_call(entry.event, refused))
            case ToolCallFinished() if (failed := failed_call(entry.event)) is not None:
                self._failed.append(self._of_call(entry.event, failed))
            case RunFinished():
                seconds = (entry.at - self.first_entry.at).total_seconds()
                self._show_end(entry.event, seconds)
            case GateOpened():
                await self._at_gate(entry.event)
            case _:
                pass

    def _of_call(self, event: AnyEvent, why: str) -> str:
        """Return what is said at the end of a call that went wrong: for people, who have read why, only which it was.

        The entry of a script that made it is named too.
        """
        shown = told_call(event) if self.out.for_people else ""
        return self.formatter.causes.placed(f"{shown}, as told above" if shown else why)

    def _show_end(self, end: RunFinished, seconds: float) -> None:
        """Show how the run ended; what a program does not read out of the record by itself goes to stderr too."""
        plays_script = self._sees_all and self.formatter.plays_script
        end_line = summary(end, seconds, self._ended_children, plays_script=plays_script)
        self._write("  ", end_line)
        answer, causes = answer_text(end.final), self.formatter.causes
        told = end.status != "completed" and answer == causes.ended
        if not told:
            self.out.write(f"\n{answer}")
        for line in summaries_of_unsuccessful(self._refused, self._failed):
            print_notice(one_line(line))
        if not self.out.for_people and end.status != "completed":
            why = causes.placed(answer) if told else answer
            print_notice(f"run {end.status} ({one_line(end.reason)}): {one_line(why)}")


async def ask_at_gate(client: Client, gate: GateOpened, out: OutputPrinter) -> None:
    """Ask the person at the terminal to decide, unless somebody already has."""
    if not await _is_pending(client, gate):
        return
    if gate.approval_id is None:
        _show_unknown_call(gate, out)
        return
    for line in _more_of_call(gate.detail):
        out.write(f"    {line}", "yellow")
    while (word := _asked_word(out, edits=takes_edit(gate))) != "s":
        try:
            if await _decide(client, gate, word, out):
                return
        except ProblemError as error:
            found = error.problem
            if found.code == "server_unreachable":  # whoever is asked can start it and be asked again
                found = found.model_copy(update={"remedy": "Start it: towpath up, and answer again."})
            said = refusal_line(found)
            for line in (said, *(fault for fault in fault_lines(found) if fault not in said)):
                out.write(f"    {line}", "red")
    out.write(f"    still waiting; later: towpath gates approve {gate.gate_id}")


def _asked_word(out: OutputPrinter, *, edits: bool) -> str:
    """Ask until the answer is one that there is, and return its first letter."""
    words = "[a]pprove [e]dit [d]eny [s]kip" if edits else "[a]pprove [d]eny [s]kip"
    while True:
        line = prompt(f"    approve? {words} ").strip()
        word = _ANSWERS.get(line.lower(), "")
        if word and (edits or word != "e"):
            return word
        if line:
            out.write(f"    {_no_answer(line, edits=edits)}", "yellow")


def _no_answer(line: str, *, edits: bool) -> str:
    """Say that *line* decides nothing, and what does."""
    told = one_line(line, ANSWER_WIDTH)
    if edits and ("=" in line or line.startswith("{")):
        return f"nothing was decided: answer e first, then {told}"
    return f"nothing was decided: answer {'a, e, d or s' if edits else 'a, d or s'}, not {told}"


def takes_edit(gate: GateOpened) -> bool:
    """Return whether the call that waits may get other arguments: not where it was changed too often."""
    return gate.approval_id is not None and gate.gate_type == "approval"


async def _decide(client: Client, gate: GateOpened, word: str, out: OutputPrinter) -> bool:
    """Send the decision with its reason; returns False where the person had none to send after all."""
    digest = gate.detail.get("digest")
    args = await edited_arguments(client, gate.detail, out) if word == "e" else None
    if word == "e" and args is None:
        return False
    reason = _asked_reason(out, is_required=word == "d")
    if reason is None:  # Ctrl-D says no yes
        out.write("")
        return False
    if args is not None:
        done = await client.gates.edit(gate.gate_id, args, reason=reason, digest=digest)
        out.write(f"    edited; {one_line(done.detail).rpartition(': ')[2] or 'the run goes on'}")
    elif word == "a":
        await client.gates.approve(gate.gate_id, reason=reason, digest=digest)
    else:
        await client.gates.deny(gate.gate_id, reason, digest=digest)
    return True


def _asked_reason(out: OutputPrinter, *, is_required: bool) -> str | None:
    """Ask for the reason of a decision, again where a required one is empty; None is the end of all input."""
    question = "    reason: " if is_required else "    reason (may be empty): "
    while (line := prompt(question, at_end=_NO_REASON).strip()) == "" and is_required:
        out.write("    a denial needs a reason, since the agent reads it; Ctrl-D takes the denial back", "yellow")
    return None if line == _NO_REASON else line


def _more_of_call(detail: Mapping[str, Any]) -> list[str]:
    """Return what the lines of a gate don't say of its call: what was changed, and arguments that are cut there."""
    arguments = shorten(sinks_first(detail), 0)
    shown = REASON_WIDTH if summary_of_gate(detail) else CALL_WIDTH
    changes = [f"changed since it was asked: {one_line(change)}" for change in detail.get("changes", ())]
    return [*changes, *([f"arguments: {arguments}"] if len(arguments) > shown else [])]


def refusal_line(found: Problem) -> str:
    """Return in one line why a decision was not taken, and what to do: two sentences."""
    return join_sentences(f"{found.code}: {one_line(found.detail)}", found.remedy)


async def print_gate_notice(client: Client, gate: GateOpened, _out: OutputPrinter) -> None:
    """Print to stderr that the run waits and how to settle it; stdout belongs to a program."""
    if await _is_pending(client, gate):
        print(printable(how_to_settle(gate)), file=sys.stderr, flush=True)


async def _is_pending(client: Client, gate: GateOpened) -> bool:
    """Return whether nobody has decided yet, as far as a key may know that starts runs and reads no gates."""
    try:
        return (await client.gates.show(gate.gate_id)).status == "pending"
    except DeniedError:
        return True


def how_to_settle(gate: GateOpened) -> str:
    """Return what waits, and the commands that let it go on, each whole and on a line of its own."""
    summary = summary_of_gate(gate.detail)
    told = f"{plain_json(summary)}: " if summary else ""
    waits = f"waiting at gate {gate.gate_id} ({told}{cut_words(gate.reason, 80) or gate.gate_type})"
    if gate.gate_type == PAUSED:
        return f"{waits}\n  only the switch opens it: towpath switches list"
    if gate.gate_type == RUN_PAUSED:
        return f"{waits}\n  it goes on with: towpath runs resume RUN"
    if gate.approval_id is None:
        words = gate.detail.get("verdicts", ("approved", "denied"))
        return f"{waits}\n  settle it with: towpath gates resolve {gate.gate_id} {'|'.join(words)} --reason …"
    approve, deny = (f"towpath gates {word} {gate.gate_id}" for word in ("approve", "deny"))
    return f"{waits}\n  settle it with: {approve}\n              or: {deny} --reason …"


def _show_unknown_call(gate: GateOpened, out: OutputPrinter) -> None:
    if gate.gate_type == PAUSED:
        out.write("    only the switch opens it: towpath switches list", "yellow")
        return
    if gate.execution_id is None:
        for line in how_to_settle(gate).split("\n"):
            out.write(f"    {line}", "yellow")
        return
    for line in unknown_call_lines(gate.detail):
        out.write(f"    {line}", "yellow")
    out.write(f"    decide with: towpath gates resolve {gate.gate_id} VERDICT --reason …", "yellow")


def unknown_call_lines(detail: Mapping[str, Any]) -> list[str]:
    """Return what is known of a call with an unknown outcome, for the person who decides."""
    lines = [f"{name}: {one_line(str(detail[key]))}" for name, key in _CALL_FACTS if detail.get(key)]
    if detail.get("retry_warning"):
        lines.append(f"retry: {detail['retry_warning']}")
    return lines


async def wait_until(limit_s: float, following: Awaitable[RunFinished | None]) -> RunFinished | None:
    """Return what *following* returns, or None when *limit_s* seconds are over first."""
    scope = asyncio.timeout(limit_s)
    try:
        async with scope:
            return await following
    except TimeoutError:
        if not scope.expired():
            raise
        return None
