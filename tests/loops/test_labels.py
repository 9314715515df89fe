"""The traces that detectors are measured with are those that were labelled before any was tuned."""

from tests.loops.digests import DIGESTS, MIXED
from tests.loops.labels import SUITE_SEEDS, digest_of, digest_of_traces, families_by_name, traces
from tests.loops.mixed import mixed
from tests.loops.traces import BENIGN, LOOPING, TOLD


def test_the_traces_and_labels_are_as_they_were_fixed() -> None:
    digests = {family: digest_of(family) for family in (*families_by_name(), *TOLD)}
    new = [f'"{family}": "{digest}",' for family, digest in sorted(digests.items()) if family not in DIGESTS]
    assert new == [], "\n".join(("add to tests/loops/digests.py:", *new))
    assert digests == DIGESTS, "traces and labels are fixed: leave a family as it is, and add another"
    assert len(LOOPING) >= 12 and len(BENIGN) >= 8


def test_the_digests_are_sorted_by_the_names_of_the_families() -> None:
    assert list(DIGESTS) == sorted(DIGESTS)


def test_runs_put_together_of_several_families_are_those_that_were_fixed_whatever_family_is_new() -> None:
    assert digest_of_traces(mixed(40)) == MIXED


def test_every_label_says_when_a_loop_is_found_in_time() -> None:
    for trace in traces(SUITE_SEEDS):
        label = trace.label
        assert not label.loops or 2 <= label.earliest <= label.latest <= len(trace.turns)
        assert label.loops or (label.earliest, label.latest) == (0, 0)
