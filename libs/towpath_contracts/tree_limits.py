"""The server's caps on trees of runs: no route raises them."""

MAX_DEPTH = 3
"""Children of children of children; the run that a caller submits has depth 0."""

MAX_PARALLEL = 4
"""Children of one run that run at the same time."""

PLAN_STEPS = 12
"""Steps of one plan."""
