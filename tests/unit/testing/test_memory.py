"""What a harness is made of: subjects that fit patterns, gates that are found without a look at all, no counting."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from prometheus_client import CollectorRegistry

from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_testing.memory.subject_patterns import SubjectIndex, SubjectPattern
from towpath_testing.metrics import uncounted
from towpath_testing.tables.gate_rows import GateTable


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        ("tool.request", "tool.request", True),
        ("tool.request", "tool.requests", False),
        ("tool.request", "tool.request.more", False),
        ("run.inbox.>", "run.inbox.tas.1", True),
        ("run.inbox.>", "run.inbox", False),
        ("run.*.>", "run.inbox", False),
        ("run.event.*", "run.event.1", True),
        ("run.event.*", "run.event.1.2", False),
        ("task.*.gate", "task.ada.gate", True),
        ("task.*.gate", "task.ada.note", False),
        ("*.inbox", "run.inbox", True),
        (">", "run", True),
        ("run.>", "run.inbox.1", True),
        ("run", "run", True),
    ],
)
def test_a_subject_fits_a_pattern_token_by_token(pattern: str, subject: str, fits: bool) -> None:
    index = SubjectIndex[str]()
    index.add(pattern, "taker")
    assert SubjectPattern(pattern).fits(subject) is fits
    assert index.find(subject) == (["taker"] if fits else [])  # where it looks leaves none out


def test_takers_of_a_subject_are_found_until_they_are_removed() -> None:
    index = SubjectIndex[str]()
    for pattern, taker in (("run.event.*", "one"), ("run.event.>", "two"), ("run.*.1", "three"), ("run.inbox", "four")):
        index.add(pattern, taker)
    assert index.find("run.event.1") == ["one", "two", "three"]
    assert index.find("run.other.1") == ["three"]
    index.remove("run.event.*", "one")
    index.remove("run.event.*", "one")
    index.remove("run.*.1", "three")
    assert index.find("run.event.1") == ["two"]


def _gate(run_id: UUID, status: str = "pending") -> dict[str, Any]:
    return {"gate_id": uuid4(), "run_id": run_id, "status": status}


def test_gates_that_wait_are_found_and_those_of_a_run() -> None:
    run_id, table = uuid4(), GateTable()
    one, settled, other = _gate(run_id), _gate(run_id, "settled"), _gate(uuid4())
    for gate in (one, settled, other):
        table.add(gate)
    table.add({**one, "status": "denied"})  # it is there already
    assert list(table.waiting.values()) == [one, other]
    assert table.of_run(run_id) == [one, settled]
    table.close(one, status="approved")
    assert list(table.waiting.values()) == [other]
    assert table[one["gate_id"]]["status"] == "approved"
    assert table.of_run(uuid4()) == []


def test_metrics_of_a_harness_take_what_is_told_and_count_nothing() -> None:
    registry = CollectorRegistry()
    metrics = uncounted(OrchestratorMetrics(registry))
    metrics.facts.labels("decision_made").inc()
    metrics.batch.observe(3)
    metrics.held.dec()
    metrics.active.set(4)
    told = {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}
    assert told["towpath_batch_runs_count"] == 0
    assert told["towpath_runs_active"] == 0
    assert not [name for name in told if name == "towpath_facts_total"]
