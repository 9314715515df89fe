"""No run of a tree exceeds a cap, whatever its models write and however swarms are nested."""

from collections import Counter

from tests.support.engine.tree_world import TreeWorld


def test_e7_no_tree_exceeds_depth_width_steps_or_time_whatever_its_models_write() -> None:
    """Row E7: depth 3, steps 12, parallel 4, timeouts min(own, parent); callers can only lower."""
    seen: Counter[str] = Counter()
    for seed in range(120):
        try:
            seen += TreeWorld(seed).live()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
    wanted = ("depth 3", "at once 4", "depth_exceeded", "plan_invalid", "arguments_invalid", "specialist")
    assert min(seen[one] for one in wanted) >= 2, seen
