"""Replaces a value under every name that holds it, also in modules that a fork has imported already.

Only for processes that fault tests started, and only before a service runs in them.
"""

import sys
from collections.abc import Mapping
from typing import Any


def rebind(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Give each name its second value in every module in which it stands for the first one."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name, (before, after) in changes.items():
            if name in names and names[name] is before:
                setattr(module, name, after)
