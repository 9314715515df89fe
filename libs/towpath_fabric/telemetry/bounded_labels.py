"""Labels of metrics whose values come from tasks, networks or other servers: the first so many are told apart.

A series of a metric is kept for as long as its process lives, and by whoever collects it for much longer.
"""

MAX_VALUES = 100
"""Of one metric in one process; a platform has some ten models, and as many networks."""

OTHER = "_OTHER"
"""What all further values are counted under; OpenTelemetry's word."""


class BoundedLabels:
    """Remembers the values of one or several labels that belong together."""

    def __init__(self, most: int = MAX_VALUES) -> None:
        self._most = most
        self._known: set[tuple[str, ...]] = set()

    def of(self, *values: str) -> tuple[str, ...]:
        """Return *values*, or `_OTHER` in the place of each once there are too many."""
        if values not in self._known:
            if len(self._known) >= self._most:
                return (OTHER,) * len(values)
            self._known.add(values)
        return values
