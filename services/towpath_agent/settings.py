"""Settings of an agent's process: `TOWPATH_AGENT_*` beside those of every service.

An agent never opens Postgres, whatever its environment says.
"""

from pydantic import Field

from towpath_contracts.base import Token
from towpath_fabric.settings import Settings


class AgentSettings(Settings):
    """How one process runs: whose requests it answers, and how many at once."""

    agent_concurrency: int = Field(default=16, ge=1, le=1_024)
    project: Token = "default"
