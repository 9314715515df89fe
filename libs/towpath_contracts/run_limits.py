"""The server's caps on a run and on trees of runs: no route raises them."""

MAX_STEPS_CAP = 1_000
"""Server cap of `max_steps`."""

MAX_TIMEOUT_MS = 7 * 24 * 3_600_000
"""Server cap of a run's active time: a week."""

MAX_DEPTH = 3
"""Children of children of children; the run that a caller submits has depth 0."""

MAX_PARALLEL = 4
"""Children of one run that run at the same time."""

PLAN_STEPS = 12
"""Steps of one plan."""
