"""A block of Python as a module that a type checker can read: with the names that the text around it has introduced."""

import textwrap

from tests.docs_site.code_blocks import CodeBlock

_COMMON = """
from typing import Any, Literal
from uuid import UUID
from pydantic import BaseModel
from towpath import Agent, AgentRequest, Client, Goal, HostMount, Objective, Swarm, run
client = Client()
run_id = UUID(int=0)
"""
_AGENTS = ("chair", "lawyer", "engineer", "researcher", "writer")
PRELUDES = {
    "docs/decisions/0013-faststream-for-request-reply.md": (
        "from towpath_contracts import rpc\nfrom towpath_fabric.nats.bus import Bus\n"
        "bus: Bus = ...  # ty: ignore\nqueries: Any = ...\nreport: Any = ...\n"
    ),
    "docs/agents.md": "class Report(BaseModel):\n    title: str\nrequest: AgentRequest = ...  # ty: ignore\n",
    "docs/networks.md": "def today() -> str:\n    return ''\n",
    "docs/swarms.md": "\n".join(
        f'{name} = Agent("{name}")' for name in ("chair", "lawyer", "engineer", "researcher", "writer")
    ),
}
"""What a page tells in words, or in a block before."""


def typed_module(block: CodeBlock) -> str:
    """Return *block* inside a coroutine, so that it may await, below the names of its page."""
    body = textwrap.indent(block.text, "    ").replace("(...)", "()")
    return f"{_COMMON}{PRELUDES.get(block.page, '')}\n\nasync def block() -> None:\n{body}"
