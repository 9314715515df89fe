"""How a tool's log is written to, whoever has something to say in it."""

from collections.abc import Callable
from typing import Any

WriteLog = Callable[[str, str, dict[str, Any]], None]
"""Takes level, message and fields of one line; may be called from any thread."""
