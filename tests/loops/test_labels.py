"""The traces that detectors are measured with are those that were labelled before any was tuned."""

from tests.loops.labels import DIGEST, SUITE_SEEDS, digest, traces
from tests.loops.traces import BENIGN, LOOPING


def test_the_traces_and_labels_are_as_they_were_fixed() -> None:
    assert digest() == DIGEST, "traces are fixed: add a family with a digest of its own"
    assert len(LOOPING) >= 12 and len(BENIGN) >= 8


def test_every_label_says_when_a_loop_is_found_in_time() -> None:
    for trace in traces(SUITE_SEEDS):
        label = trace.label
        assert not label.loops or 2 <= label.earliest <= label.latest <= len(trace.turns)
        assert label.loops or (label.earliest, label.latest) == (0, 0)
