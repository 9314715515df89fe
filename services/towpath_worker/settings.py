"""Settings of a tool worker: `TOWPATH_WORKER_*` beside those of every service.

A worker never opens Postgres, whatever its environment says.
"""

from pydantic import Field, field_validator

from towpath.tools.egress_rules import pattern_faults, split_patterns
from towpath.tools.sandbox import SandboxMode
from towpath_contracts.base import Token
from towpath_fabric.settings import Settings


class WorkerSettings(Settings):
    """How one worker runs.

    `worker_owner` names who answers for the tools and is the same for all replicas; `project` is the project that the
    tools are offered to; `worker_concurrency` is how many calls run at once; `worker_sandbox` says whether programs of
    tools, and MCP servers, run in a sandbox where nothing else is said for one of them, and `worker_sandbox_egress`
    what these reach from there: `HOST:PORT`, separated by commas or spaces.
    """

    worker_concurrency: int = Field(default=16, ge=1, le=1_024)
    worker_owner: str = Field(default="worker", min_length=1, max_length=64)
    worker_sandbox: SandboxMode = "none"
    worker_sandbox_egress: str = ""
    project: Token = "default"

    @field_validator("worker_sandbox_egress")
    @classmethod
    def _written_well(cls, text: str) -> str:
        faults = pattern_faults(split_patterns(text))
        if faults:
            raise ValueError("; ".join(faults))
        return text
