"""What is compared: Towpath's effect classes, and the peers with what each needs in its environment."""

from dataclasses import dataclass

TOWPATH = {tool: f"Towpath, {tool} tool" for tool in ("pure", "idempotent", "irreversible")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One system: its title, its packages (one of npm is its server, which stores without Postgres), where runs are."""

    title: str
    requirements: tuple[str, ...]
    npm: str | None = None
    in_process: bool = True  # runs execute in the client's process


PEERS = {
    "postgres": Peer(title="bare Postgres, two commits a step", requirements=("asyncpg>=0.32,<0.33",)),
    "restate": Peer(
        title="Restate",
        requirements=("restate-sdk[serde]>=1.3,<2", "hypercorn>=0.18,<0.19", "httpx>=0.28,<0.29"),
        npm="@restatedev/restate-server@>=1.7.12 <2",
        in_process=False,
    ),
    "langgraph": Peer(
        title="LangGraph with Postgres, sync",
        requirements=(
            "langgraph>=1.2,<2",
            "langgraph-checkpoint-postgres>=3.2,<4",
            "psycopg[binary,pool]>=3.3,<4",
        ),
    ),
    "dbos": Peer(title="DBOS", requirements=("dbos>=3.4,<4", "psycopg[binary]>=3.3,<4")),
}
TITLES = {**TOWPATH, **{name: peer.title for name, peer in PEERS.items()}}
IN_PROCESS = {name for name, peer in PEERS.items() if peer.in_process}
