"""Codes of JSON-RPC errors that this side makes itself, and what is known when one of them comes.

"It was not sent" means failed, "it may have arrived" means unknown; no code stands for
both. A server that sends one of these itself can only make its own calls more doubtful.
"""

from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

NOT_SENT = -32_990
"""The server was not reached: nothing was done."""

SESSION_GONE = -32_991
"""The server knows this session no more and took nothing: connect again."""

REFUSED = -32_992
"""The server's HTTP side refused with a status that says so (most 4xx): nothing was done."""

LOST = -32_993
"""The request was sent and the answer never came, or a status (5xx, 408, 409, 425, 499 …) leaves it open."""

TOO_LARGE = -32_994
"""The answer came and was larger than what is taken."""

UNCERTAIN = frozenset({CONNECTION_CLOSED, REQUEST_TIMEOUT, LOST})
"""Nobody knows whether the call happened."""

CERTAINLY_NOT = frozenset({NOT_SENT, SESSION_GONE, REFUSED})
