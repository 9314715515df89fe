"""Counts what takes long of a policy when it is loaded: its different conditions, which are compiled, and its patterns.

All of them are compiled before the first call is decided, also for a shadow policy, so they are bounded together:
10,000 rules may each have a condition, and each condition 4,096 characters.
"""

from towpath_tas.core.policy.matrix import is_exact

MAX_CONDITION_CHARS = 131_072
"""Characters of the different conditions of one policy: compiling them takes two seconds at most."""

MAX_PATTERNS = 4_096
MAX_PATTERN_CHARS = 131_072
"""Different patterns with `*`, `?` or `[…]` of one policy, and their characters: half a second at most."""


class PolicySize:
    """Adds up the different conditions and patterns of one policy."""

    def __init__(self) -> None:
        self._conditions: set[str] = set()
        self._patterns: set[str] = set()
        self.condition_chars = 0
        self.pattern_chars = 0

    @property
    def chars(self) -> int:
        """Characters that are compiled when the policy is loaded."""
        return self.condition_chars + self.pattern_chars

    def is_new(self, condition: str) -> bool:
        """Return whether *condition* was not counted yet."""
        return condition not in self._conditions

    def add_condition(self, text: str) -> str:
        """Count a condition; returns what is wrong where there are now too many, else an empty string."""
        if text not in self._conditions:
            self._conditions.add(text)
            self.condition_chars += len(text)
        if self.condition_chars <= MAX_CONDITION_CHARS:
            return ""
        return (
            f"the different conditions up to here have {self.condition_chars} characters together; "
            f"at most {MAX_CONDITION_CHARS} are allowed: compare lists of names with 'in', or let tools check values"
        )

    def add_pattern(self, text: str) -> str:
        """Count a name or pattern; returns what is wrong where there are now too many patterns."""
        if is_exact(text) or text == "*":
            return ""
        if text not in self._patterns:
            self._patterns.add(text)
            self.pattern_chars += len(text)
        count = len(self._patterns)
        if count <= MAX_PATTERNS and self.pattern_chars <= MAX_PATTERN_CHARS:
            return ""
        return (
            f"{count} different patterns of {self.pattern_chars} characters up to here; at most {MAX_PATTERNS} "
            f"of {MAX_PATTERN_CHARS} together are allowed: write names out, or use fewer and wider patterns"
        )
