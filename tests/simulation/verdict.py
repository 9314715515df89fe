"""The judge of a simulated world: what must hold of the tables, the outside and the logs, whatever happened.

It relies on no report of a service about itself. While the world runs it asks, at every acknowledgement and
every effect, whether the record was there first; at the end it compares everything with everything.
"""

import json
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.simulation.families import RunTreeJudge
from tests.simulation.outside.broker import StoredMessage

from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.facts import AnyFact, InternalToolPermittedFact, fact_adapter
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.tools.calls import EffectClass, ToolOutcome
from towpath_contracts.tools.internal_tools import PLATFORM_TOOLSET
from towpath_engine.advance import advance
from towpath_engine.replay import fold, replay

ALLOWED = frozenset({"allow", "retry", "again"})
ONCE = (EffectClass.IRREVERSIBLE, EffectClass.RECONCILABLE)


def _is_stored(stored: str, fact: AnyFact, text: str) -> bool:
    """Return whether *stored* is this fact; a permission is stored with the texts that its call reads."""
    if not isinstance(fact, InternalToolPermittedFact):
        return stored == text
    return f'"type":"{fact.type}"' in stored and f'"execution_id":"{fact.execution_id}"' in stored


class WorldJudge:
    """Judges one world."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._runs = world.runs
        self._ledger = world.ledger

    def decided(self, execution_id: UUID) -> bool:
        """Return whether the audit holds a decision that lets this call happen."""
        return any(
            note["execution_id"] == execution_id and note["phase"] in ("decision", "approval.consumed")
            for note in self._ledger.audit
            if note["verdict"] == "allow"
        )

    def instructed(self, run_id: UUID, execution_id: UUID) -> bool:
        """Return whether the run's log holds the instruction for this call."""
        name = str(execution_id)
        return any(
            row["type"] == "instruction_issued" and name in row["event"] for row in self._runs.events[run_id].values()
        )

    def on_ack(self, message: StoredMessage) -> None:
        """A fact has left the inbox for good: what it reports must be in the log, or have changed nothing.

        It was folded at some moment since it was delivered; what came after that moment may have made it matter.
        """
        fact = fact_adapter.validate_json(message.data)
        text = message.data.decode()
        if any(_is_stored(row["fact"], fact, text) for row in self._runs.facts[fact.run_id].values()):
            return
        log = self._log(fact.run_id)
        delivered = self._world.now() - timedelta(seconds=self._world.broker.loop.time() - message.delivered_at)
        known = sum(entry.at < delivered for entry in log)
        if all(self._matters(fact, log[:length]) for length in range(len(log), max(known, 1) - 1, -1)):
            self._world.complain(f"acknowledged before it was stored: {text[:300]}")

    def _matters(self, fact: AnyFact, log: tuple[LogEntry, ...]) -> bool:
        """Return whether the fact would have changed a run with this log."""
        state = fold(fact.run_id, self._world.network, log)
        entries, _, _ = advance(state, fact, self._world.now())
        return any(entry.event.type not in ("effect_resent", "decision_missed") for entry in entries)

    def on_confirmed(self, outcome: ToolOutcome) -> None:
        """A worker forgets an outcome: the ledger must have it, as the call's or as evidence."""
        call = self._ledger.calls.get(outcome.execution_id)
        if outcome.status == "ticket_expired" or (call is not None and call["accepted"]):
            return
        noted = any(
            note["execution_id"] == outcome.execution_id and note["phase"] in ("evidence", "outcome", "dispatch")
            for note in self._ledger.audit
        )
        if not noted:
            self._world.complain(f"confirmed before it was stored: {outcome.execution_id} {outcome.status}")

    def on_cancel_answered(self, run_id: UUID) -> None:
        """A client got the answer that the run stops: from here on no broker may lose that."""
        status = self._runs.runs[run_id]["status"]
        if status != "cancelling" and status not in FINAL_STATUSES:
            self._world.complain(f"a cancel was answered and is not in the log of {run_id}, which is {status}")

    def all_ended(self) -> bool:
        """Return whether every run has ended, and no message is left undelivered."""
        return all(run["status"] in FINAL_STATUSES and run["wake_at"] is None for run in self._runs.runs.values()) and (
            not any(queue.messages for queue in self._world.broker.queues.values())
        )

    def what_hangs(self) -> str:
        """Name what is not over."""
        runs = [f"{r} {run['status']} {run['wake_at']}" for r, run in self._runs.runs.items() if run["wake_at"]]
        queues = {name: len(queue.messages) for name, queue in self._world.broker.queues.items() if queue.messages}
        missing = self._world.tasks - len(self._world.keys)
        return f"{missing} tasks, {runs}, {queues}"

    def judge(self) -> None:
        """Compare everything with everything."""
        self._lost()
        self._acts()
        self._after_fence()
        self._check_last_starts()
        self._unapproved()
        for run_id in self._runs.runs:
            self._run(run_id)
        RunTreeJudge(self._world).judge()
        for letter in self._runs.dead_letters:
            self._world.complain(f"dead letter: {letter['stream']} {letter['reason']}")
        self._count()

    def _lost(self) -> None:
        for key, run_id in self._world.keys.items():
            run = self._runs.runs.get(run_id)
            if run is None:
                self._world.complain(f"lost: {key} was accepted as {run_id}, which does not exist")
            elif run["status"] not in FINAL_STATUSES:
                self._world.complain(f"lost: {run_id} is {run['status']} {run['reason']}")

    def _acts(self) -> None:
        acts = defaultdict(list)
        for act in self._world.outside.acts:
            acts[act.execution_id].append(act)
            if not act.decided:
                self._world.complain(f"audit hole: {act.execution_id} happened without a decision")
            if not act.instructed:
                self._world.complain(f"{act.execution_id} happened, and the run knew nothing of it")
            self._after_cancel(act)
        for execution_id, every in acts.items():
            allowed = 1 + self._world.outside.retries.get(execution_id, 0)
            counted = [act for act in every if act.effect_class is EffectClass.IRREVERSIBLE or not act.stale]
            if every[0].effect_class in ONCE and len(counted) > allowed:
                self._world.complain(f"dup: {execution_id} happened {len(counted)} times, allowed {allowed}")

    def _after_cancel(self, act: Any) -> None:
        run = self._runs.runs[act.run_id]
        over = self._runs.over_at.get(act.run_id)
        started_late = run["status"] == "cancelled" and over is not None and act.began > over
        if started_late and act.effect_class is not EffectClass.PURE:
            self._world.complain(f"{act.execution_id} began {act.began - over} after its run was cancelled")

    def _unapproved(self) -> None:
        """What people must approve happened only when enough of them approved it, and never by its requester."""
        rows = self._ledger
        for act in self._world.outside.acts:
            call = rows.calls[act.execution_id]
            if call["tool"] != "wire":
                continue
            approval = rows.approvals[call["approval_id"]]
            yes = {voter for voter, word in rows.votes.get(call["approval_id"], {}) if word != "denied"}
            if approval["status"] != "consumed" or len(yes) < approval["quorum"] or call["caller"] in yes:
                self._world.complain(f"{act.execution_id} happened, approved by {sorted(yes)}: {approval['status']}")
            if act.args_digest != json.loads(approval["bound"])["args_digest"]:
                self._world.complain(f"{act.execution_id} happened with other arguments than were approved")

    def _after_fence(self) -> None:
        """A stored fence ends all starting: whoever was let in came before it."""
        for note in self._ledger.audit:
            fenced_at = self._ledger.fenced_at.get(note["run_id"])
            if (note["phase"], note["verdict"]) == ("claim", "granted") and fenced_at and note["at"] > fenced_at:
                self._world.complain(f"{note['execution_id']} was let in after the fence of its run")

    def _check_last_starts(self) -> None:
        """The outcome of an irreversible call's last start comes from it or a person, never from an earlier start."""
        started: dict[UUID, str] = {}
        doubts: Counter[UUID] = Counter()
        for note in self._ledger.audit:
            execution_id, what = note["execution_id"], (note["phase"], note["verdict"])
            call = self._ledger.calls.get(execution_id)
            if call is None or call["effect_class"] != EffectClass.IRREVERSIBLE:
                continue
            claim = json.loads(note["detail"]).get("claim_id")
            overtaken = claim is not None and claim != started.get(execution_id, claim)
            if what == ("claim", "granted"):
                started[execution_id] = claim
            elif note["phase"] == "settled":
                started.pop(execution_id, None)
            elif what == ("outcome", "unknown"):
                doubts[execution_id] += 1
            elif what == ("evidence", "succeeded") and overtaken and doubts[execution_id] > 1:
                self._world.seen.note("first_start_told_after_second_doubt")
            elif what == ("outcome", "succeeded") and overtaken:
                self._world.complain(f"{execution_id} is over, and nobody was asked about its last start")

    def _log(self, run_id: UUID) -> tuple[LogEntry, ...]:
        return tuple(
            LogEntry(seq=row["seq"], at=row["at"], event=event_adapter.validate_json(row["event"]))
            for _, row in sorted(self._runs.events[run_id].items())
        )

    def _run(self, run_id: UUID) -> None:
        log = self._log(run_id)
        run = self._runs.runs[run_id]
        if [entry.seq for entry in log] != list(range(1, run["seq"] + 1)):
            self._world.complain(f"diff: the log of {run_id} has a gap")
            return
        facts = [
            (fact_adapter.validate_json(row["fact"]), row["at"]) for _, row in sorted(self._runs.facts[run_id].items())
        ]
        differs = replay(run_id, self._world.network, log, facts)
        if differs is not None:
            self._world.complain(f"replay of {run_id}: {differs}")
        state = fold(run_id, self._world.network, log)
        if (state.status, state.fence) != (run["status"], run["fence"]):
            self._world.complain(f"diff: {run_id} is {run['status']} in its row and {state.status} in its log")
        self._world.seen.note(run["status"])
        self._calls(run_id, run, log)

    def _calls(self, run_id: UUID, run: dict[str, Any], log: tuple[LogEntry, ...]) -> None:
        in_log: dict[UUID, str] = {}
        times: Counter[UUID] = Counter()
        for entry in log:
            event: Any = entry.event
            if event.type in ("tool_call_finished", "tool_call_denied"):
                times[event.execution_id] += 1
                in_log[event.execution_id] = getattr(event, "status", "denied")
        for execution_id, count in times.items():
            if count > 1:
                self._world.complain(f"double: {execution_id} finished {count} times")
        for execution_id in self._ledger.by_run[run_id]:
            self._call(run, self._ledger.calls[execution_id], in_log.get(execution_id))

    def _call(self, run: dict[str, Any], call: dict[str, Any], in_log: str | None) -> None:
        execution_id, status = call["execution_id"], call["status"]
        if status in ("requested", "permitted", "started", "awaiting_approval"):
            self._world.complain(f"orphan: {execution_id} of a run that is {run['status']} is {status}")
        elif in_log in ("succeeded", "failed", "denied") and in_log != status:
            self._world.complain(f"diff: {execution_id} is {status} in the ledger and {in_log} in the log")
        elif run["status"] == "completed" and in_log is None:
            self._world.complain(f"diff: {execution_id} is in the ledger and not in the log of a completed run")
        if call["toolset"] == PLATFORM_TOOLSET:
            return  # the run itself did it: what its log holds was compared
        pure = call["effect_class"] == EffectClass.PURE
        if status == "succeeded" and not pure and not self._world.outside.happened(execution_id):
            self._world.complain(f"diff: {execution_id} succeeded and never happened")
        if status in ("void", "denied") and not pure and self._world.outside.happened(execution_id):
            self._world.complain(f"diff: {execution_id} is {status} and happened")

    def _count(self) -> None:
        for rows in self._runs.events.values():
            for row in rows.values():
                if row["type"] in ("effect_resent", "outcome_recorded"):
                    self._world.seen.note(row["type"])

    def summary(self) -> str:
        """The ends of all runs, for people."""
        return json.dumps(Counter(run["status"] for run in self._runs.runs.values()))
