"""Remedies with the names that are known in the place of words such as RUN and GATE.

What is put in is pasted into a shell, so only names that a shell takes as they are: everything else leaves its word.
"""

import re
from collections.abc import Mapping

PLACEHOLDERS = {"RUN": "run_id", "GATE": "gate_id", "ERASURE": "erasure_id", "NETWORK": "network"}
"""Words of remedies, and the fields and parts of paths that hold what they stand for."""

_WORDS = re.compile(rf"\b(?:{'|'.join(PLACEHOLDERS)})\b")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")


def with_names(remedy: str, known: Mapping[str, object]) -> str:
    """Return *remedy* with what is *known*, by field, in the place of its words."""

    def named(word: re.Match[str]) -> str:
        value = str(known.get(PLACEHOLDERS[word[0]]) or "")
        return value if _PLAIN.fullmatch(value) else word[0]

    return _WORDS.sub(named, remedy)
