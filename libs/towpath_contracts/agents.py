"""How agents in user code come to their requests.

An agent's process asks in the name of its own pool alone; the broker holds its credential to that.
"""

from towpath_contracts.base import Message, Token


class DeclareAgentQueue(Message):
    """Agent process to orchestrator: have a queue for the requests of *name* in *project*."""

    project: Token
    name: Token


class AgentQueueDeclared(Message):
    """The queue is there: the durable consumer to pull from."""

    durable: str
