"""What the tool-access service needs to know beside what every service does."""

from pathlib import Path

from towpath_fabric.settings import Settings


class TasSettings(Settings):
    """Settings of one TAS replica; every replica is given the same."""

    database_pool: int = 6
    """Three connections belong to the hot loops; the rest answer questions."""

    ticket_key_file: Path | None = None
    """The Ed25519 key that signs tickets, shared by all replicas."""

    ticket_life_s: int = 300
    """How long after its permission a call may start. Longer queues cost one more authorization, nothing else."""

    policy_file: Path | None = None
    """A matrix that is applied at start and whenever the file changes (the embedded platform)."""

    policy_project: str = "default"
    batch_size: int = 256
    """Messages that one commit serves at most."""

    cache_calls: int = 8_192
    """Open calls remembered between a message and the next, to save reading them; forgetting one costs a query."""
