"""How much of a process one key, and one project, may have at once.

The process has a limit for all; a project's is beneath it and a key's beneath that, so that no single one holds up the
others. What is full is named by the code of the refusal.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.core.api_keys import Principal


class ShareLimits(NamedTuple):
    """How many at once: in all, for one project, and for one key."""

    total: int
    project: int
    key: int


class Shares:
    """Counts what is under way; *what* names it in refusals, which ask to come back after *retry_after_s*."""

    def __init__(self, what: str, limits: ShareLimits, retry_after_s: int) -> None:
        self._what = what
        self._limits = limits
        self._retry_after_s = retry_after_s
        self._held: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def held(self, principal: Principal) -> Iterator[None]:
        """Count one more of *principal* meanwhile.

        Raises ProblemError `key_share_full`, `project_share_full` or `overloaded`. Who has no key is alone on the
        machine and has all of it.
        """
        owners = [("overloaded", "", self._limits.total)]
        if principal.key_prefix is not None:
            owners.insert(0, ("project_share_full", principal.project, self._limits.project))
            owners.insert(0, ("key_share_full", principal.key_prefix, self._limits.key))
        for code, owner, limit in owners:
            if self._held[code, owner] >= limit:
                detail = f"{limit} {self._what} are under way here"
                raise ProblemError(problem(code, detail, retry_after_s=self._retry_after_s))
        for code, owner, _ in owners:
            self._held[code, owner] += 1
        try:
            yield
        finally:
            for code, owner, _ in owners:
                self._held[code, owner] -= 1
                if not self._held[code, owner]:
                    del self._held[code, owner]
