"""A broker and a database that run already, and the environment of a service that uses them.

Of those on a data folder it is looked at whose they are before anything there is followed: an address that another user
wrote would be sent secrets. A service gets the secrets that it needs and no other, also of an environment that names
the servers: a worker runs user code.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from towpath.client.settings import is_mine, running_state
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.local_access import LocalAccess
from towpath_embedded.platform_state import BROKER_FOLDER
from towpath_embedded.processes import role_names, role_process
from towpath_embedded.processes.ports import LOOPBACK
from towpath_fabric.addresses.port_owners import STATE_FILE

PASSWORDS = Path(BROKER_FOLDER) / "passwords.json"

_GATEWAY, _TAS = frozenset({"gateway"}), frozenset({"tas"})
_DATABASE = frozenset({"TOWPATH_DATABASE_URL", "TOWPATH_DATABASE_URL_FILE"})
_NEEDED_BY = {
    "TOWPATH_NATS_PASSWORD": None,
    "TOWPATH_NATS_PASSWORD_FILE": None,
    **dict.fromkeys(_DATABASE, role_names.DATABASE_ROLES),
    "TOWPATH_SESSION_SECRET": _GATEWAY,
    "TOWPATH_SESSION_SECRET_FILE": _GATEWAY,
    "TOWPATH_OIDC_CLIENT_SECRET": _GATEWAY,
    "TOWPATH_OIDC_CLIENT_SECRET_FILE": _GATEWAY,
    "TOWPATH_TICKET_KEY_FILE": _TAS,
    "TOWPATH_SEAL_KEY_FILE": _TAS,
}
"""Which roles use a secret of an environment that names the servers; None is all of them."""

_OF_DATABASE = (
    *("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE"),
    *("PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL", "PGSSLNEGOTIATION"),
    *("PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION", "PGTARGETSESSIONATTRS", "PGKRBSRVNAME", "PGGSSLIB"),
)
"""What asyncpg reads beside the database's address: a password and certificates may stand there alone."""


def environment_beside_named(role: str) -> dict[str, str]:
    """Return the environment of *role* beside the servers that this process's own environment names.

    Where that names a database, what PostgreSQL's clients read belongs to it, and not to tools.
    """
    given = os.environ
    named = not _DATABASE.isdisjoint(given)
    needed_by = {**_NEEDED_BY, **dict.fromkeys(_OF_DATABASE if named else (), role_names.DATABASE_ROLES)}
    needed = {name for name, roles in needed_by.items() if name in given and (roles is None or role in roles)}
    if role == "worker":
        needed |= role_process.passed_on(given) & given.keys() & set(_OF_DATABASE)
    others = {name: value for name, value in role_process.inherited(role).items() if name not in needed_by}
    return {**others, **{name: given[name] for name in needed}}


@dataclass(frozen=True, slots=True)
class RunningServers:
    """The servers on *data*: where the broker is, the *password* of each of its users, and the database's address."""

    data: Path
    nats_url: str
    password: Callable[[str], str]
    dsn: Callable[[str], str]

    @classmethod
    def on(cls, data: Path) -> Self | None:
        """Return those of the platform of this user that runs on *data*; None where none runs.

        Raises ProblemError `data_folder_shared` where others may write the passwords.
        """
        state = running_state(data)
        if state is None:
            return None
        file = data / PASSWORDS
        if not (is_mine(file.parent) and is_mine(file)):
            raise ProblemError(problem("data_folder_shared", f"{file}: another user's, or writable by others"))
        passwords = json.loads(file.read_text("utf-8"))
        owner = str(state["database_url"])

        def dsn(role: str) -> str:
            return re.sub(r"^postgresql://[^@/]*@", f"postgresql://towpath_{role}@", owner)

        return cls(data.absolute(), str(state["nats_url"]), passwords.__getitem__, dsn)

    def environment_of(self, role: str, name: str, access: LocalAccess) -> dict[str, str]:
        """Return the environment of the process *name* of *role*, which lets in whom *access* does."""
        environment = {
            **role_process.inherited(role, access.own_keys()),
            "TOWPATH_EMBEDDED": "1",
            "TOWPATH_INSTANCE": name,
            "TOWPATH_NATS_URL": self.nats_url,
            "TOWPATH_NATS_OWNER": str(os.geteuid()),
            "TOWPATH_NATS_USER": role,
            "TOWPATH_NATS_PASSWORD": self.password(role),
            "TOWPATH_HEALTH_HOST": LOOPBACK,
            "TOWPATH_GATEWAY_HOST": LOOPBACK,
            "TOWPATH_STATE_FILE": str(self.data / STATE_FILE),
        }
        # A secret that this process was given for another purpose is not passed on.
        for variable in ("TOWPATH_DATABASE_URL", "TOWPATH_TICKET_KEY_FILE", "TOWPATH_SEAL_KEY_FILE"):
            environment.pop(variable, None)
        return {**environment, **self._secrets_of(role, access)}

    def _secrets_of(self, role: str, access: LocalAccess) -> dict[str, str]:
        secrets = {"TOWPATH_DATABASE_URL": self.dsn(role)} if role in role_names.DATABASE_ROLES else {}
        if role == "gateway":
            secrets |= access.gateway_settings()
        if role == "tas":
            secrets["TOWPATH_TICKET_KEY_FILE"] = str(self.data / "ticket.key")
            secrets["TOWPATH_SEAL_KEY_FILE"] = str(self.data / "seal.key")
            secrets["TOWPATH_CHECKPOINT_FILE"] = str(self.data / "checkpoints.txt")
            secrets["TOWPATH_AUTH"] = "on" if access.asks_for_keys else "auto"
        return secrets
