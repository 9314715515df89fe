"""What a campaign found, as one document: figures, the matrix of faults and boundaries, every finding as a sentence.

No I/O. Whatever should not be stands in `problems`; the campaign has passed when there is none.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from towpath_embedded.chaos.campaign import CampaignActions, TargetRun
from towpath_embedded.chaos.comparison import describe_difference
from towpath_embedded.chaos.faults import FAULTS
from towpath_embedded.chaos.judge import JudgeReport, UnknownOutcomeCall
from towpath_embedded.chaos.stored_runs import Row, StoredRunRows

SHARE = 0.95
"""Of the runs, at least so many must complete: a platform on which everything fails loses nothing either."""

JUST_BEFORE_S = 1.0
"""A strike shortly before a claim can still keep its outcome from arriving."""

SHOWN = 20
"""How many findings of one kind the document quotes; their count is always complete."""

_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_COUNTED = ("lost", "duplicates", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFindings:
    """What was found after a campaign: by the judge, by replaying every run, and by comparing runs."""

    result: CampaignActions
    record: StoredRunRows
    verdict: JudgeReport
    differing: Sequence[str]
    replay_mismatches: Sequence[str]


def differing_runs(result: CampaignActions, record: StoredRunRows, verdict: JudgeReport) -> list[str]:
    """Describe the runs that differ from the undisturbed run of their network, and where.

    What a person decided about an unknown call is left out, and the end of a call that ran out of its own time because
    its worker was frozen: to fail then is what its time limit is for. A goal or an objective goes another way after
    such an end, in it or in a child of its own; it is judged like every run, and not compared.
    """
    doubted: dict[str, set[str]] = defaultdict(set)
    for unknown in verdict.unknown:
        doubted[unknown.run_id].add(unknown.execution_id)
    for run_id, execution_id in timeouts(record):
        doubted[run_id].add(execution_id)
    by_run = _by_run(record)
    astray = _astray(record, {execution_id for ids in doubted.values() for execution_id in ids})
    found: list[str] = []
    for run_id, network in result.run_ids.items():
        reference = result.references[network]
        if run_id != reference and run_id in by_run and run_id not in astray:
            both = _joined(by_run[reference], by_run[run_id])
            found.append(describe_difference(both, reference, run_id, doubted[run_id]))
    return [text for text in found if text]


def _astray(record: StoredRunRows, doubted: Collection[str]) -> set[str]:
    """Return the goals and objectives in which, or in a child of which, one of these calls did not succeed."""
    missed = {row["run_id"] for row in record.calls if row["execution_id"] in doubted and row["status"] != "succeeded"}
    above = {row["event"]["child_id"]: row["run_id"] for row in record.events if row["type"] == "child_started"}
    missed |= {above[run_id] for run_id in missed & above.keys()}
    begun = [row for row in record.events if row["type"] == "run_created"]
    pursuing = {row["run_id"] for row in begun if row["event"].get("kind") in ("goal", "background")}
    return missed & pursuing


def timeouts(record: StoredRunRows) -> list[tuple[str, str]]:
    """Return the calls, by run and execution id, that ended because their time was over."""
    return [
        (row["run_id"], row["event"]["execution_id"])
        for row in record.events
        if row["type"] == "tool_call_finished" and (row["event"].get("failure") or {}).get("code") == "tool_timeout"
    ]


def _by_run(record: StoredRunRows) -> dict[str, dict[str, list[Row]]]:
    """Only the parts that are compared, run by run: looking through all of it for each run would take minutes."""
    parts: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for name in ("runs", "events", "gates", "calls"):
        for row in getattr(record, name):
            parts[row["run_id"]][name].append(row)
    return parts


def _joined(*parts: Mapping[str, list[Row]]) -> StoredRunRows:
    names = ("runs", "events", "gates", "calls")
    return StoredRunRows(**{name: [row for part in parts for row in part.get(name, [])] for name in names})


def report_document(
    found: CampaignFindings, *, seed: int, expected: Sequence[str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the report; *expected* are the faults that were ordered, *facts* what else it should contain."""
    verdict = found.verdict
    order = {boundary: place for place, boundary in enumerate(found.result.boundaries)}
    struck = [target for target in found.result.targets if target.strike is not None]
    struck.sort(key=lambda target: (order[target.cell.boundary], list(FAULTS).index(target.cell.fault)))
    blame = _blame(found)
    unknown = [_explained(found, one, struck) for one in verdict.unknown]
    findings = {
        **{"duplicates" if name == "dup" else name: list(texts) for name, texts in verdict.findings.items()},
        "differing": list(found.differing),
        "replay_mismatches": list(found.replay_mismatches),
    }
    return {
        "seed": seed,
        **facts,
        "strikes": len(struck),
        "kills": sum(FAULTS[target.cell.fault].kills for target in struck),
        "by_fault": dict(sorted(_grouped(struck, blame, lambda target: target.cell.fault).items())),
        "by_boundary": _grouped(struck, blame, lambda target: target.cell.boundary.label),
        "matrix": {
            label: _grouped(group, blame, lambda target: target.cell.fault)
            for label, group in _groups(struck, lambda target: target.cell.boundary.label).items()
        },
        "runs": verdict.runs,
        "completed": verdict.completed,
        "completed_share": round(verdict.share, 4),
        **{name: len(texts) for name, texts in findings.items()},
        "unknown": unknown,
        "unknown_by_cause": _by_cause(verdict.unknown),
        "gates": dict(found.result.gate_answers),
        "effects": verdict.effects,
        "repeats": verdict.repeats,
        "dead_letters": len(verdict.dead_letters),
        "timeouts": len(timeouts(found.record)),
        "recovery_s": _quantiles(struck),
        "findings": {name: texts[:SHOWN] for name, texts in findings.items() if texts},
        "problems": _problems(found, findings, unknown, expected),
    }


def _problems(
    found: CampaignFindings,
    findings: Mapping[str, Sequence[str]],
    unknown: Sequence[Mapping[str, Any]],
    expected: Sequence[str],
) -> list[str]:
    problems = [f"{name}: {len(texts)}, for example {texts[0]}" for name, texts in findings.items() if texts]
    hit = {target.cell.fault for target in found.result.targets if target.strike is not None}
    problems += [f"the fault {name} never struck" for name in expected if name not in hit]
    missed = [target.cell for target in found.result.targets if target.strike is None]
    problems += [f"{cell.fault} never struck at {cell.boundary.label}: no run came to it" for cell in missed]
    problems += [f"unknown without a strike: {entry['where']}" for entry in unknown if not entry["strikes"]]
    if not found.result.quiet:
        problems.append("not everything came to rest: runs go on, or the history lags behind")
    if found.verdict.share < SHARE:
        problems.append(f"{found.verdict.share:.1%} of the runs completed; {SHARE:.0%} is the least")
    return problems


def _blame(found: CampaignFindings) -> dict[str, dict[str, int]]:
    """How many findings of each counted kind a run has; a finding names a run or one of its calls."""
    run_of = {row["execution_id"]: row["run_id"] for row in found.record.calls}
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COUNTED, 0))
    for name, texts in (("lost", found.verdict.lost), ("duplicates", found.verdict.dup)):
        for text in texts:
            for key in set(_ID.findall(text)):
                counts[run_of.get(key, key)][name] += 1
    for unknown in found.verdict.unknown:
        counts[unknown.run_id]["unknown"] += 1
    return counts


def _groups(targets: Iterable[TargetRun], key: Any) -> dict[str, list[TargetRun]]:
    groups: dict[str, list[TargetRun]] = defaultdict(list)
    for target in targets:
        groups[key(target)].append(target)
    return groups


def _grouped(targets: Iterable[TargetRun], blame: Mapping[str, dict[str, int]], key: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "strikes": len(group),
            **{kind: sum(blame[t.run_id][kind] for t in group if t.run_id in blame) for kind in _COUNTED},
            "recovery_s": _quantiles(group),
        }
        for name, group in _groups(targets, key).items()
    }


def _quantiles(targets: Iterable[TargetRun]) -> dict[str, float | None]:
    """Seconds from the strike to the struck run's next event."""
    times = sorted(target.recovery_s for target in targets if target.recovery_s is not None)
    if not times:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": _at(times, 0.50), "p99": _at(times, 0.99), "max": round(times[-1], 3)}


def _at(times: Sequence[float], share: float) -> float:
    return round(times[min(len(times) - 1, int(share * len(times)))], 3)


def _explained(found: CampaignFindings, unknown: UnknownOutcomeCall, struck: Sequence[TargetRun]) -> dict[str, Any]:
    """Describe where the call was, its verdicts, and which strikes fell between its claim and the unknown outcome."""
    fields = asdict(unknown)
    where = f"{fields.pop('tool')} of run {unknown.run_id}"
    entries = [row for row in found.record.audit if row["execution_id"] == unknown.execution_id]
    claims = [row for row in entries if row["phase"] == "claim" and row["verdict"] == "granted"]
    doubts = [row["at"] for row in entries if row["phase"] == "outcome" and row["verdict"] == "unknown"]
    if not claims or not doubts:
        return {"where": where, **fields, "strikes": []}
    claimed, worker = claims[0]["at"], claims[0]["actor"]
    during = [
        f"{target.cell.fault} of {strike.process} {strike.wall - claimed:+.2f} s after the claim"
        for target in struck
        if (strike := target.strike) is not None and claimed - JUST_BEFORE_S <= strike.wall <= doubts[0]
    ]
    return {"where": where, "claimed_by": worker, **fields, "verdicts": list(unknown.verdicts), "strikes": during}


def _by_cause(unknown: Sequence[UnknownOutcomeCall]) -> dict[str, int]:
    causes: dict[str, int] = defaultdict(int)
    for one in unknown:
        causes[f"{one.effect_class}: {one.why}"] += 1
    return dict(causes)
