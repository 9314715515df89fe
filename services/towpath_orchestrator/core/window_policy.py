"""The width of a dispatch window: how many requests may be on their way to one destination.

It is found by trials, while some requests have to wait: a wider window is kept where answers come faster, a narrower
one where they come no slower. More than that would only wait at the broker, where nobody chooses whose turn it is.
Nothing is assumed about who answers, or how long that takes: a model may take seconds and a script none.
"""

FLOOR = 8
"""Always allowed: less would leave answerers idle between two looks."""

CEILING = 1_024
"""What one consumer may have taken and not acknowledged (`towpath_contracts.streams`)."""

AHEAD = 8
"""Messages that may wait at the broker: so many that answerers never find it empty."""

FAST, GENTLE = 2.0, 1.25
"""By how much more is tried: twice as many until that does not help, then a quarter more."""

WORTH = 0.5
"""More is kept where answers come faster by at least this part of it: twice as many, half as fast again."""

LESS, WORSE = 2 / 3, 0.9
"""A third less is tried as well, and kept unless answers come a tenth slower."""

PROMPT_S = 0.05
"""What is answered within this time may always be on its way: whoever comes behind it hardly waits, and fewer at once
would make batches small, in which each message costs more."""

SLOW_S = 1.0
"""Where fewer than FLOOR answers come in this time, waiting for generations of them would take too long."""

UP_AGAIN, DOWN_AGAIN = 16, 32
"""After a trial that was taken back, so many generations of answers before the next one."""

LEAST_MEASURED = 16


class WindowWidth:
    """The size of a window. `ended` and `look` are called while messages wait, `rest` when none does."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._tried: tuple[int, float] | None = None
        """The size before the trial under way, and how many answers came in a second then."""
        self._generation = self._up_from = self._down_from = 0
        self._step = FAST
        self._answers = 0
        self._slow_from: float | None = None
        self.rest()

    def rest(self) -> None:
        """Forget the measurement: nothing waits, so the window bounds nothing."""
        self._tried = None
        self._slow_from = None
        self._begin()

    def _begin(self) -> None:
        """Measure anew: what is on its way now is of another size, and is not counted."""
        self._skip = self.size
        self._counted = 0
        self._since = 0.0

    def ended(self, now: float) -> None:
        """Take note of an answer, at *now* seconds of any clock."""
        self._answers += 1
        if self._skip:
            self._skip -= 1
            self._since = now
        else:
            self._counted += 1

    def look(self, now: float, backlog: int | None) -> int:
        """Return by how much the window changes; *backlog* messages wait at the broker, None where nobody knows."""
        if backlog is not None and backlog > 2 * AHEAD and self.size > FLOOR:
            return self._to(self.size - (backlog - AHEAD))
        spare = not backlog or backlog < AHEAD
        if self._is_slow(now) and spare:
            return self._to(self.size + FLOOR)
        if self._counted < max(LEAST_MEASURED, self.size) or now <= self._since:
            return 0
        rate = self._counted / (now - self._since)
        self._generation += 1
        least = min(CEILING, int(rate * PROMPT_S))
        if spare and self.size < least:
            self._tried = None
            return self._to(least)
        return self._judge(rate, max(FLOOR, least), spare=spare)

    def _is_slow(self, now: float) -> bool:
        """Return whether a time of SLOW_S has ended with next to no answers."""
        if self._slow_from is None:
            self._slow_from, self._answers = now, 0
        if now - self._slow_from < SLOW_S:
            return False
        answers, self._slow_from, self._answers = self._answers, now, 0
        return answers < FLOOR

    def _judge(self, rate: float, least: int, *, spare: bool) -> int:
        if self._tried is not None:
            before, was = self._tried
            self._tried = None
            if self.size > before and rate < was * (1 + WORTH * (self.size / before - 1)):
                self._up_from = self._generation + UP_AGAIN
                self._step = GENTLE
                return self._to(before)
            if self.size < before and rate < was * WORSE:
                self._down_from = self._generation + DOWN_AGAIN
                return self._to(before)
        if spare and self._generation >= self._up_from and self.size < CEILING:
            self._tried = self.size, rate
            return self._to(int(self.size * self._step))
        if self._generation >= self._down_from and self.size > least:
            self._tried = self.size, rate
            return self._to(max(least, int(self.size * LESS)))
        self._begin()
        return 0

    def _to(self, size: int) -> int:
        before, self.size = self.size, max(FLOOR, min(CEILING, size))
        self._begin()
        return self.size - before
