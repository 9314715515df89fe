"""Which files of its workspace a goal declares to be artifacts.

Whoever sets the goal says what counts as made: a criterion that looks at `artifacts` and names the file. What a
model writes beside that is no progress, however much of it there is.
"""

from towpath_engine.expressions.criterion import names_in
from towpath_engine.state.run import RunState


def is_wanted(state: RunState, path: str) -> bool:
    """Say whether an acceptance criterion of the run names the file *path* as an artifact."""
    goal = state.created.goal
    if goal is None:
        return False
    named = (f"'{path}'", f'"{path}"')
    wanted = (one.when for one in goal.acceptance_criteria if one.when is not None)
    return any(any(name in when for name in named) and "artifacts" in names_in(when) for when in wanted)
