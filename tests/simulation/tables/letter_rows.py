"""Tables of messages that nobody could handle, and of those that are being handled."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulation.tables.database import Database, Session

Row = dict[str, Any]


class LetterRows:
    """Dead letters, counts of failures, and marks of what is being handled."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dead_letters: list[Row] = []
        self.failures: dict[tuple[str, int], int] = defaultdict(int)
        self.deaths: dict[tuple[str, int], int] = defaultdict(int)
        self.marks: dict[tuple[str, int], tuple[datetime, UUID]] = {}

    def add_dead_letters(self, _session: Session, stream: str, _most: int, *columns: list[Any]) -> list[Row]:
        names = ("subject", "run_id", "reason", "body", "failures", "project", "effect_id", "delivery", "cut")
        for values in zip(*columns, strict=True):
            self.dead_letters.append({"stream": stream, **dict(zip(names, values, strict=True))})
            self.database.seen.note("dead_letter")
        return [{"has_room": True} for _ in columns[0]]

    def count_failure(self, _session: Session, stream: str, sequence: int) -> list[Row]:
        self.failures[stream, sequence] += 1
        return [{"failures": self.failures[stream, sequence]}]

    def begin_handling(self, _session: Session, stream: str, sequence: int, age_s: float, holder: UUID) -> list[Row]:
        key, now = (stream, sequence), self.database.now()
        mark = self.marks.get(key)
        if mark is not None and mark[1] != holder and mark[0] < now - timedelta(seconds=age_s):
            self.deaths[key] += 1
        self.marks[key] = (now, holder)
        return [{"deaths": self.deaths[key]}]

    def end_handling(self, _session: Session, stream: str, sequence: int, survived: bool, holder: UUID) -> list[Row]:
        key = (stream, sequence)
        if survived:
            self.deaths[key] = 0
        if key in self.marks and self.marks[key][1] == holder:
            del self.marks[key]
        return []
