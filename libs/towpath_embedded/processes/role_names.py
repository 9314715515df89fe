"""Names of the platform's roles: which there are, their order of start and stop, and which have a database.

It imports nothing: the fork server is started with these names before the rest of the platform is imported.
"""

DATABASE_ROLES = frozenset({"gateway", "orchestrator", "tas", "log_writer"})
START_ORDER = ("log_writer", "tas", "orchestrator", "decider", "worker", "agent", "gateway", "watchdog")
STOP_ORDER = (
    "watchdog",
    "gateway",
    "worker",
    "agent",
    "decider",
    "orchestrator",
    "tas",
    "log_writer",
    "nats",
    "postgres",
)
"""Roles that take in work stop first, those that store it last."""


def role_of(name: str) -> str:
    """Return the role of the process *name*: `orchestrator-2` is an orchestrator."""
    return name.partition("-")[0]


def replica_names(role: str, count: int) -> list[str]:
    """Name *count* processes of *role*: the first bears its bare name."""
    return [role if number == 1 else f"{role}-{number}" for number in range(1, count + 1)]
