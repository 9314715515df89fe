"""The server's caps on a run and on trees of runs, which no route raises, and how long runs are usually active."""

from collections.abc import Mapping
from types import MappingProxyType

MAX_STEPS_CAP = 1_000
"""Server cap of `max_steps`."""

MAX_TIMEOUT_MS = 7 * 24 * 3_600_000
"""Server cap of a run's active time: a week."""

MINUTE_MS = 60_000

USUAL_TIMES_MS: Mapping[str, int] = MappingProxyType(
    {
        "network": 5 * MINUTE_MS,
        "swarm": 30 * MINUTE_MS,
        "goal": 30 * MINUTE_MS,
        "plan": 60 * MINUTE_MS,
        "background": MAX_TIMEOUT_MS,
    }
)
"""Active time by the kind of a run."""

MAX_DEPTH = 3
"""Children of children of children; the run that a caller submits has depth 0."""

MAX_PARALLEL = 4
"""Children of one run that run at the same time."""

PLAN_STEPS = 12
"""Steps of one plan."""

MAX_VERSION = 2**31 - 1
"""The highest version of a network that may be named: what its column can hold."""
