"""A discovered tool as the worker runs it.

It calls its server only while the platform has accepted exactly this definition; a changed definition is another
tool object, which begins without a standing.
"""

from typing import Any

from pydantic import BaseModel

from towpath.tools.arguments import Arguments
from towpath.tools.context import ToolContext
from towpath.tools.declaration import Tool
from towpath_contracts.base import JsonObject
from towpath_worker.adapters.mcp.discovery import Found


class _Unread(BaseModel):
    """Arguments go to the server as they are: the platform has checked them against the schema that it stored."""


class DiscoveredTool(Tool[Any, Any]):
    """One tool of an MCP server. *caller* sends a call to the server: `await caller(tool, args, context)`."""

    def __init__(self, found: Found, caller: Any) -> None:
        async def call(args: JsonObject, context: ToolContext) -> Any:
            return await caller(self, args, context)

        call.__name__ = found.tool
        nothing = Arguments(model=_Unread, schema=found.spec.parameters, names=(), system=(), context=None)
        super().__init__(call, found.spec, nothing)
        self.found = found

    def bind(self, args: JsonObject, context: ToolContext) -> dict[str, Any]:
        """Return what `call` takes."""
        return {"args": args, "context": context}

    @property
    def accepted(self) -> bool:
        """Whether the platform has accepted this definition."""
        return self.standing in {"accepted", "unchanged"}
