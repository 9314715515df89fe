"""What a crash-point sweep found, in figures and sentences.

An unknown outcome counts as explained only where a worker was killed while it held that very call, and only for a
class that may never run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from towpath_embedded.chaos.judge import JudgeReport, UnknownOutcomeCall
from towpath_embedded.chaos.outside import ToolEffectRecord
from towpath_embedded.chaos.stored_runs import StoredRunRows
from towpath_embedded.processes.supervisor import FIRST_PAUSE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepKill:
    """A kill that took place: `process` is the name of the replica, `at` seconds since the epoch."""

    point: str
    nth: int
    effect_class: str
    process: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedUnknown:
    """An unknown outcome and the kill that made it so. `window` names the steps of the worker around it."""

    execution_id: str
    effect_class: str
    window: str
    point: str
    verdicts: tuple[str, ...]


@dataclass(kw_only=True)
class SweepReport:
    """What a sweep found."""

    points: int
    kills: list[SweepKill]
    missed: list[str]
    """Cases whose point no process passed."""
    verdict: JudgeReport
    explained: list[ExplainedUnknown]
    unexplained: list[str]
    differences: list[str]
    left: list[str]
    """What was not over when it should have been."""
    tools: frozenset[str]
    """The tools that were called."""
    seconds: float

    @property
    def problems(self) -> list[str]:
        """Everything that must not be, as sentences; empty where the sweep passed."""
        found = [f"{name}: {sentence}" for name, sentences in self.verdict.findings.items() for sentence in sentences]
        found += [f"never hit: {name}" for name in self.missed]
        found += [f"unknown without a reason: {name}" for name in self.unexplained]
        found += [f"difference: {sentence}" for sentence in self.differences]
        return found + [f"left: {what}" for what in self.left]

    def figures(self) -> dict[str, Any]:
        """Return the figures of the catalogue's test 1, and where outcomes were unknown."""
        return {
            "points": self.points,
            "points_hit": len({kill.point for kill in self.kills}),
            "kills": len(self.kills),
            "runs": self.verdict.runs,
            "ended": self.verdict.ended,
            **{name: len(sentences) for name, sentences in self.verdict.findings.items()},
            "dead_letters": len(self.verdict.dead_letters),
            "differences": len(self.differences),
            "never_hit": len(self.missed),
            "unknown": len(self.explained) + len(self.unexplained),
            "unknown_unexplained": len(self.unexplained),
            "unknown_at": sorted({f"{found.point}: {found.window}" for found in self.explained}),
            "seconds": round(self.seconds, 1),
        }


def explain_unknown(
    unknown: Sequence[UnknownOutcomeCall],
    record: StoredRunRows,
    marks: Sequence[ToolEffectRecord],
    kills: Sequence[SweepKill],
) -> tuple[list[ExplainedUnknown], list[str]]:
    """Find for every unknown call the kill of the worker that held its claim, between the claim and the doubt.

    A worker may be killed while TAS still has its request for the claim: then the claim is granted to a dead process.
    Its successor has the same name, but is not started before FIRST_PAUSE_S is over.
    """
    happened = {mark.execution_id for mark in marks}
    explained: list[ExplainedUnknown] = []
    unexplained: list[str] = []
    for found in unknown:
        kill = _kill_in(record, found.execution_id, kills)
        if kill is None or found.effect_class != "irreversible":
            unexplained.append(f"{found.execution_id} ({found.effect_class}): {found.why}")
            continue
        done = found.execution_id in happened
        window = "after the tool, before the outcome was sent" if done else "after the claim, before the tool"
        explained.append(
            ExplainedUnknown(
                execution_id=found.execution_id,
                effect_class=found.effect_class,
                window=window,
                point=kill.point,
                verdicts=found.verdicts,
            )
        )
    return explained, unexplained


def _kill_in(record: StoredRunRows, execution_id: str, kills: Sequence[SweepKill]) -> SweepKill | None:
    own = [row for row in record.audit if row["execution_id"] == execution_id]
    doubted = max((row["at"] for row in own if (row["phase"], row["verdict"]) == ("outcome", "unknown")), default=0.0)
    granted = [row for row in own if (row["phase"], row["verdict"]) == ("claim", "granted")]
    return next(
        (
            kill
            for claim in granted
            for kill in kills
            if kill.process == claim["actor"] and claim["at"] - FIRST_PAUSE_S <= kill.at <= doubted
        ),
        None,
    )
