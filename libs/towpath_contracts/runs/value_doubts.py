"""Which values of a waiting call a person has to look at, in the same words wherever somebody is asked.

Names of arguments and tools are others' words: each stands as a whole, cut, and with what it hides escaped, so that it
can't be taken for several or for the rest of the line.
"""

import re
from collections.abc import Mapping
from typing import Any

from towpath_contracts.text import ELLIPSIS, visible_json

MOST_VALUES = 6
"""Values of a call that a line names; `gates show` has all."""

NAME_WIDTH = 40
"""Of one name in such a line."""

UNSEEN = "not found in the task or in a trusted result, so check it"
UNTRUSTED = "found in untrusted output alone, so check it"
LEAKING = "may not be told all that this call sends"
SHORT_NUMBER = "stands in the task, but so short a number may mean something else there, so check it"

_NOT_BARE = re.compile(r"[\s=;]|^\Z")


def doubt_lines(detail: Mapping[str, Any]) -> list[str]:
    """Say in lines which values of a waiting call are in doubt, and why; *detail* is that of its gate."""
    origins = detail.get("origins") or ()
    unknown = [_named(one, "path") for one in origins if one.get("from") == "unknown" and not one.get("in_task")]
    short = [_named(one, "path") for one in origins if one.get("from") == "unknown" and one.get("in_task")]
    strange = [f"{_named(one, 'path')} ({_source(one)})" for one in origins if one.get("from") == "untrusted"]
    leaking = [_named(one, "path") for one in origins if one.get("leak")]
    told = ((UNSEEN, unknown), (SHORT_NUMBER, short), (UNTRUSTED, strange), (LEAKING, leaking))
    return [f"{_listed(found)}: {words}" for words, found in told if found]


def quoted(value: Any) -> str:
    """Return *value* as it is where it can't be taken for more than one, else as JSON in which all can be seen."""
    shown = visible_json(value)
    return value if isinstance(value, str) and shown == f'"{value}"' and not _NOT_BARE.search(value) else shown


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_VALUES} more" if len(names) > MOST_VALUES else ""
    return ", ".join(names[:MOST_VALUES]) + more


def _named(origin: Mapping[str, Any], field: str) -> str:
    name = quoted(str(origin.get(field, "")))
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + ELLIPSIS


def _source(origin: Mapping[str, Any]) -> str:
    piece = f": {_named(origin, 'piece')}" if origin.get("piece") else ""
    return f"{_named(origin, 'tool')}, step {origin.get('step', '?')}{piece}" if origin.get("tool") else "nobody's"
