"""Loads and caches what runs have seen, to tell where the values of a call come from.

Read only for calls whose decision depends on it, in one query for all runs of a batch. An ended call never changes, so
what was read once is kept. What could not be read makes values unknown, never trusted.

What workers return is read from the ledger, which has it before its run does. What other agents and internal tools
answer is read from the log of the run that asked, which has it before the ledger does. Where somebody asks who may know
a call's texts, what the agents that answered have read is read too: their answers keep its readers.
"""

import json
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from towpath_contracts.tools.readers import OutputReaders
from towpath_fabric.clock import monotonic
from towpath_fabric.turns.dedicated_threads import DedicatedThreads
from towpath_fabric.turns.fair_queue import take_in_turns
from towpath_tas.adapters.origin_tables import (
    CallOutput,
    LoggedEvent,
    QuerySource,
    RunInputs,
    RunOutputs,
    read_blob,
    read_outputs,
    read_spec,
    read_tasks,
)
from towpath_tas.app.calls.run_ancestors import SeenRun, find_ancestors, is_run_of, read_documents
from towpath_tas.core.provenance.call_values import QUOTED_INPUTS
from towpath_tas.core.provenance.logged_answers import ended_child, failure_text
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.seen_results import (
    add_answer,
    add_below,
    add_blob,
    add_person_statement,
    add_preview,
)
from towpath_tas.core.provenance.text_readers import CallDeclaration
from towpath_tas.core.provenance.value_leaves import ValueSource

MAX_RUNS = 256
"""Runs that are cached; others are read again."""

MAX_CHARS = 32_000_000
"""Characters of tool output in all cached runs together."""

MAX_SPECS = 4_096
MAX_AT_ONCE = 4_096
"""Characters of one call that are read between two other tasks of the process; more are read in a thread."""

ORIGIN_THREADS = 2
"""Threads of one cache: what it reads, and where the values of a call are looked for in what it has read."""

PASS_S = 0.25
"""How long results are read for one batch; then its other calls are decided; these go on at their next try."""

LEAST_S = 0.05
"""How long the runs above one run are read at least, however late it is: each time at least one result is."""

TASKS_AT_ONCE = 16
"""Tasks that are read in one query: each may have a megabyte."""

MAX_BELOW = 256
"""Runs below one run, or beside it, whose readings are read; what further ones answered may be known to nobody."""

MAX_BELOW_CHARS = 4_000_000

MAX_PAGES = 8
"""Pages of calls, or of answers, read of one run: its limits end a run before it has more."""


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a version of a tool declares of its output."""

    trusted: bool = False
    fields: tuple[str, ...] = ()
    readers: tuple[OutputReaders, ...] = ()


class RunProvenanceCache:
    """Reads and caches what runs have seen."""

    def __init__(self) -> None:
        self._runs: dict[UUID, SeenRun] = {}
        self._chars = 0
        self._specs: dict[tuple[str, str, int], _Declared] = {}
        self.threads = DedicatedThreads(ORIGIN_THREADS, "origins")

    async def of(
        self, source: QuerySource, wanted: Mapping[UUID, str], readers: Collection[UUID] = ()
    ) -> dict[UUID, RunProvenance]:
        """Return what these runs, given with their projects, have seen so far; raises what `DATABASE_DOWN` lists.

        Of *readers* it is asked who may know it. Runs that need longer than PASS_S are left out: what was read of them
        is kept, and another time goes on there.
        """
        runs = {run_id: self._known(run_id, project, run_id in readers) for run_id, project in wanted.items()}
        late = await self._begin_all(source, {one: run for one, run in runs.items() if not run.has_begun})
        if begun := {run_id: run for run_id, run in runs.items() if run_id not in late}:
            late |= await self._read(source, begun, within_s=PASS_S)
        for run_id, run in runs.items():
            if run.kept:
                self._chars -= self._runs.pop(run_id).counted if run_id in self._runs else 0
                self._runs[run_id] = run  # most recently used last; the first is evicted first
                run.counted = run.chars
                self._chars += run.counted
        self._make_room()
        return {run_id: run.knowledge for run_id, run in runs.items() if run_id not in late}

    def _known(self, run_id: UUID, project: str, readers: bool) -> SeenRun:
        found = self._runs.get(run_id)
        if found is not None and found.project == project and (found.readers or not readers):
            return found
        return SeenRun(project, readers)

    async def _begin_all(self, source: QuerySource, runs: Mapping[UUID, SeenRun]) -> set[UUID]:
        """Read what *runs* begin with, and the runs above them; returns those of which something is left after PASS_S.

        Projects take turns, and of each one run goes on in every pass, so each has begun in the end.
        """
        until, late, served = monotonic() + PASS_S, set[UUID](), set[str]()
        tasks: dict[UUID, RunInputs] = {}
        read: set[UUID] = set()
        order = take_in_turns(deque(runs), len(runs), len(runs), lambda run_id: runs[run_id].project)
        for place, run_id in enumerate(order):
            run, is_over = runs[run_id], monotonic() > until
            if is_over and run.project in served:
                late.add(run_id)
                continue
            served.add(run.project)
            if not run.kept and run_id not in read:
                few = [one for one in order[place : place + (1 if is_over else TASKS_AT_ONCE)] if not runs[one].kept]
                tasks |= await read_tasks(source, few)
                read.update(few)
            if not run.kept:
                await self._begin(source, run, tasks.get(run_id))
            if not await self._read_above(source, run, until):
                late.add(run_id)
        return late

    async def _begin(self, source: QuerySource, run: SeenRun, task: RunInputs | None) -> None:
        """Add what others made of what the caller submitted, and find the runs above a fork, a child or a reply.

        Of a thread at most MAX_ANCESTORS runs are read; what was only in older ones is unknown.
        """
        if task is None or task.project != run.project:
            run.knowledge.mark_incomplete()  # nor is it known which runs are above it
            return
        run.kept = True
        found = await find_ancestors(source, run, task)
        if task.unreadable:
            run.knowledge.mark_incomplete()  # nobody here reads an image or PDF: what a model saw in it stands nowhere
        for text in task.quoted:
            await self.threads.run(partial(run.knowledge.add_untrusted, ValueSource(QUOTED_INPUTS), text))
        run.documents.extend(task.documents)
        run.told.extend(found.told(task))
        run.above.extend(reversed(found.runs))
        if found.whole:
            run.vouching = found.vouching
        else:
            run.knowledge.mark_incomplete()  # the run's ancestors are unknown: nothing in its task is trusted

    async def _read_above(self, source: QuerySource, run: SeenRun, until: float) -> bool:
        """Read on in the runs above *run*, then add the tasks that vouch; returns whether the time sufficed for all.

        A model may have written the task of a child, so only the task of its root run is trusted. A later step of a
        plan or workflow receives answers of earlier agents, which are not trusted. Calls are added from the root
        downwards, as they happened: what a record returned first is not the agents' own. What was read stays read.
        Who may know what the run was told is known once all of them are.
        """
        if not await read_documents(source, run, self.threads, until):
            return False
        while run.above:
            above, before, logged = one = run.above[0]
            left_s = max(LEAST_S, until - monotonic())
            if await self._read(source, {above: run}, before=before, logged=logged, within_s=left_s):
                return False
            if run.above and run.above[0] is one:  # a concurrent reader may have been here
                run.above.popleft()
            if run.above and monotonic() > until:
                return False
        while run.told:
            told = run.told[0]
            add = partial(run.knowledge.add_untrusted, told.source, told.text, run.may_know_told(told))
            await self.threads.run(add) if len(told.text) > MAX_AT_ONCE else add()
            if run.told and run.told[0] is told:
                run.told.popleft()
        vouching, run.vouching = run.vouching, []
        for task in reversed(vouching):
            _add_task(run.knowledge, task)
        run.has_begun = run.kept
        return True

    async def _read(
        self,
        source: QuerySource,
        runs: Mapping[UUID, SeenRun],
        *,
        before: int | None = None,
        logged: bool = True,
        within_s: float,
    ) -> set[UUID]:
        """Read what is new of *runs*; returns those of which something is left after *within_s*."""
        late: set[UUID] = set()
        until = 0.0
        for page in range(MAX_PAGES):
            calls = [execution_id for run in runs.values() for execution_id in run.seen]
            places = {
                run_id: run.log_of(run_id).seq if run.kept and (logged or run.readers) else None
                for run_id, run in runs.items()
            }
            found = await read_outputs(source, {one: places[one] for one in places if one not in late}, calls)
            until = until if page else monotonic() + within_s  # after the query: each time at least one result is read
            for run_id in sorted(runs, key=lambda one: _work(found, one)):  # what takes least first
                own = [output for output in found.calls if output.run_id == run_id]
                if await self._read_run(source, runs[run_id], own, before, until):
                    late.add(run_id)
                    continue
                events = [event for event in found.logged if event.run_id == run_id]
                read = self._read_answers if logged else self._read_steps
                if await read(source, runs[run_id], events, before, until):
                    late.add(run_id)
            if not found.is_full:
                return late
        for run_id, run in runs.items():
            if run_id not in late:
                run.knowledge.mark_incomplete()
        return late

    async def _read_run(
        self, source: QuerySource, run: SeenRun, outputs: Sequence[CallOutput], before: int | None, until: float
    ) -> bool:
        """Read these calls of one run, step by step; returns whether the time was over before the last one."""
        for step in sorted({output.step for output in outputs}):
            calls = [output for output in outputs if output.step == step]
            for call in calls:  # before their results: a call may return what another one of its step has written
                await self._take_arguments(run, call, before)
            for call in calls:
                if run.kept and call.ended and call.execution_id not in run.seen and monotonic() > until:
                    return True
                await self._take_result(source, run, call, before)
        return False

    async def _read_answers(
        self, source: QuerySource, run: SeenRun, events: Sequence[LoggedEvent], before: int | None, until: float
    ) -> bool:
        """Read what one log says of answers; returns whether the time was over before the last of them."""
        for one in events:
            log = run.log_of(one.run_id)
            if one.seq <= log.seq:
                continue  # a concurrent reader has added it
            if monotonic() > until:
                return True
            if await self._read_below(source, run, one, before, until):
                return True
            answer = log.read(one.event)
            if answer is not None and (before is None or answer.step < before):
                add = partial(add_answer, run.knowledge, answer, run.may_know(answer.children))
                await self.threads.run(add) if one.chars > MAX_AT_ONCE else add()
            log.taken(one.seq)  # only now, as with calls
        return False

    async def _read_steps(
        self, source: QuerySource, run: SeenRun, events: Sequence[LoggedEvent], before: int | None, until: float
    ) -> bool:
        """Read what the agents of a plan or workflow have read in earlier steps; its answers are in the task."""
        for one in events:
            log = run.log_of(one.run_id)
            if one.seq <= log.seq:
                continue
            if monotonic() > until or await self._read_below(source, run, one, before, until):
                return True
            log.taken(one.seq)
        return False

    async def _read_below(
        self, source: QuerySource, run: SeenRun, one: LoggedEvent, before: int | None, until: float
    ) -> bool:
        """Read what the run has read whose end the event tells; returns whether the time was over before its end.

        It has ended, so it reads nothing more. What it read of the runs below it is read in the same way.
        """
        child = ended_child(one.event)
        if child is None or not run.readers or (before is not None and child.step >= before):
            return False
        if child.child_id in run.answered or child.child_id in run.unread:
            return False
        if child.child_id not in run.below:
            full = len(run.answered) + len(run.unread) >= MAX_BELOW or run.knowledge.below_chars > MAX_BELOW_CHARS
            if full or not await is_run_of(source, child.child_id, run.project):
                run.unread[child.child_id] = str(one.run_id)
                return False
        below = run.below.setdefault(child.child_id, SeenRun(run.project, readers=True, kept=True))
        if await self._read(source, {UUID(child.child_id): below}, within_s=max(LEAST_S, until - monotonic())):
            return True
        if run.below.pop(child.child_id, None) is below:  # else a concurrent reader has added it
            add_below(run.knowledge, below.knowledge, child.step)
            if below.knowledge.whole and not below.unread:
                run.answered.add(child.child_id)
            else:
                run.unread[child.child_id] = str(one.run_id)
        return False

    async def _take_arguments(self, run: SeenRun, call: CallOutput, before: int | None) -> None:
        """Add what the agent itself gave a call. A denied call has written nothing."""
        if call.execution_id in run.asked or call.fact.get("type") == "tool.denied":
            return
        if _is_known(run, call, before):
            add = partial(run.knowledge.add_arguments, json.loads(call.args), reads=call.reads)
            await self.threads.run(add) if len(call.args) > MAX_AT_ONCE else add()
        run.asked.add(call.execution_id)

    async def _take_result(self, source: QuerySource, run: SeenRun, call: CallOutput, before: int | None) -> None:
        if not call.ended or call.execution_id in run.seen:
            return
        if _is_known(run, call, before):
            await self._take(source, run.knowledge, call)
        run.seen.add(call.execution_id)  # only now: a concurrent reader must read it itself

    async def _take(self, source: QuerySource, known: RunProvenance, output: CallOutput) -> None:
        fact, seen = output.fact, ValueSource(output.tool, output.step)
        if fact.get("settled_by"):
            add_person_statement(known, fact)
            return
        if fact.get("type") == "tool.denied":
            return  # the reason of a denial names what must not happen, so it is not trusted
        if output.internal:
            return  # the log has it, and had it before
        declared = await self._declared(source, output)
        readers = CallDeclaration(declared.readers, json.loads(output.ran_args) if declared.readers else None)
        failure = fact.get("failure")
        if failure:
            known.add_untrusted(seen, failure_text(failure), readers.loose_text())
        add = partial(_add_result, known, seen, declared, readers)
        if fact.get("blob"):
            data, whole = await read_blob(source, output.project, str(fact.get("result_digest")))
            text = await self.threads.run(partial(add_blob, add, known, seen, readers, data, whole=whole))
            await self.threads.run(partial(add_preview, known, seen, readers, fact.get("preview"), text))
        elif fact.get("result") is not None:
            read = partial(add, fact["result"])
            await self.threads.run(read) if output.chars > MAX_AT_ONCE else read()

    async def _declared(self, source: QuerySource, output: CallOutput) -> _Declared:
        """Return what the tool's definition of that version declares of its output."""
        key = (output.project, output.tool, output.tool_version)
        found = self._specs.get(key)
        if found is None:
            spec = await read_spec(source, *key)
            found = _Declared(
                spec.get("trusted_output") is True,
                tuple(spec.get("trusted_fields") or ()),
                _readers(spec.get("readers") or ()),
            )
            if len(self._specs) >= MAX_SPECS:
                self._specs.clear()
            self._specs[key] = found
        return found

    def _make_room(self) -> None:
        while self._runs and (len(self._runs) > MAX_RUNS or self._chars > MAX_CHARS):
            self._chars -= self._runs.pop(next(iter(self._runs))).counted


def _work(found: RunOutputs, run_id: UUID) -> tuple[bool, int]:
    own = [output for output in found.calls if output.run_id == run_id]
    said = sum(event.chars for event in found.logged if event.run_id == run_id)
    return any(output.fact.get("blob") for output in own), said + sum(output.chars for output in own)


def _readers(written: Sequence[Any]) -> tuple[OutputReaders, ...]:
    """Return who may know the output; nobody, where another release wrote it in a way that this one can't read."""
    try:
        return tuple(map(OutputReaders.model_validate, written))
    except ValueError:
        return (OutputReaders(),)


def _is_known(run: SeenRun, call: CallOutput, before: int | None) -> bool:
    return call.project == run.project and (before is None or call.step < before)


def _add_task(known: RunProvenance, task: RunInputs) -> None:
    for text in task.texts:
        known.add_task(text)
    known.add_task("", task.inputs)


def _add_result(
    known: RunProvenance, seen: ValueSource, declared: _Declared, readers: CallDeclaration, result: Any
) -> None:
    known.add_output(seen, result, trusted=declared.trusted, fields=declared.fields, readers=readers)
