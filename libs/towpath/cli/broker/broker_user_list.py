"""Who may connect to a deployed broker besides its services: `deploy/credentials.yaml`, and what is made from it.

The list holds names and what they are for, never a password; `authority.conf` beside it is made from it and the
authority table alone, so that the broker's rights can be read, reviewed and compared.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from cyclopts import Parameter
from pydantic import Field, ValidationError

from towpath_contracts.authority import SERVICES, NatsUserRights, agent_rights, client_rights, worker_rights
from towpath_contracts.base import ClientMessagePart, Token
from towpath_contracts.broker_accounts import SYSTEM, broker_accounts
from towpath_contracts.problems.input_faults import details_of, summary_of
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_readings.yaml_lines import locate_yaml_fault

Deploy = Annotated[Path, Parameter(name="--deploy")]
"""The folder with the list and what is made from it."""

FILE = "credentials.yaml"
AUTHORITY = "authority.conf"
_HEAD = """\
# Who connects to the broker besides the services; passwords are in secrets/.
# Changed by: towpath workers credential add NAME --project P --toolset T
#             towpath agents credential add NAME --project P --agent A
#             towpath clients credential add NAME
"""


OTHER_SECRETS = frozenset({"nats", "postgres", "migrate", "models", "seal", "streams", "ticket"})
"""Files in secrets/ that are nobody's credential: a user of such a name overwrites one, or is given its secrets."""

Nkey = Annotated[str, Field(pattern=r"^U[A-Z2-7]{55}$")]
"""The public half of a user's nkey; `towpath keys nkey` shows it."""


class WorkerBrokerUser(ClientMessagePart):
    """What one worker credential serves; scaling a toolset is more processes with the same one."""

    project: Token = "default"
    toolsets: Annotated[tuple[Token, ...], Field(min_length=1)]


class AgentBrokerUser(ClientMessagePart):
    """Which agent in user code one credential answers for; more processes share it."""

    project: Token = "default"
    agent: Token


class BrokerUserList(ClientMessagePart):
    """The list: workers and agents by name, callers that submit tasks over NATS, and who has which public nkey.

    `operators` are those of the callers that may also pause and resume runs: over HTTP that takes `runs:operate`.
    Whoever has an nkey, a service too, logs in with its seed (TOWPATH_NATS_NKEY_FILE) and has no password.
    """

    workers: dict[Token, WorkerBrokerUser] = {}
    agents: dict[Token, AgentBrokerUser] = {}
    clients: tuple[Token, ...] = ()
    operators: tuple[Token, ...] = ()
    nkeys: dict[Token, Nkey] = {}

    def without(self, name: str) -> Self:
        """Return the list of everybody but *name*, who is removed."""
        left: dict[str, Any] = {
            part: {user: one for user, one in getattr(self, part).items() if user != name}
            for part in ("workers", "agents", "nkeys")
        }
        left |= {part: tuple(user for user in getattr(self, part) if user != name) for part in ("clients", "operators")}
        return self.model_copy(update=left)

    def users(self) -> dict[str, NatsUserRights]:
        """Return every user of the broker with its rights; raises `request_invalid` for a name that is taken."""
        asked = [*self.workers, *self.agents, *self.clients]
        taken = sorted({name for name in asked if name in SERVICES or asked.count(name) > 1})
        if taken:
            raise ProblemError(problem("request_invalid", f"{FILE} names twice or after a service: {', '.join(taken)}"))
        files = sorted({name for name in asked if name.casefold() in OTHER_SECRETS})
        if files:
            detail = f"{FILE} has users whose names are those of other files in secrets: {', '.join(files)}"
            raise ProblemError(problem("request_invalid", detail))
        strange = sorted(self.nkeys.keys() - SERVICES.keys() - set(asked))
        if strange:
            raise ProblemError(problem("request_invalid", f"{FILE} has nkeys of nobody: {', '.join(strange)}"))
        unknown = sorted(set(self.operators) - set(self.clients))
        if unknown:
            detail = f"{FILE} has operators that are none of its clients: {', '.join(unknown)}"
            raise ProblemError(problem("request_invalid", detail))
        workers = {name: worker_rights(name, one.project, one.toolsets) for name, one in self.workers.items()}
        agents = {name: agent_rights(name, one.project, one.agent) for name, one in self.agents.items()}
        clients = {name: client_rights(name, operates=name in self.operators) for name in self.clients}
        return {**SERVICES, **workers, **agents, **clients}


def load(path: Path) -> BrokerUserList:
    """Read the list; an absent file is an empty one. Raises `request_invalid` with everything that is wrong."""
    if not path.exists():
        return BrokerUserList()
    text = path.read_text("utf-8")
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ProblemError(problem("request_invalid", locate_yaml_fault(path, error, text))) from error
    return read(content, str(path))


def read(content: Any, where: str) -> BrokerUserList:
    """Return the list in *content*; raises `request_invalid` with everything that is wrong, and *where*."""
    try:
        return BrokerUserList.model_validate(content)
    except ValidationError as error:
        wrong = details_of(error)
        raise ProblemError(problem("request_invalid", f"{where}: {summary_of(wrong)}", errors=wrong)) from error


def save(path: Path, credentials: BrokerUserList) -> None:
    """Write the list, and `authority.conf` beside it."""
    body = yaml.safe_dump(credentials.model_dump(mode="json"), sort_keys=False)
    path.write_text(_HEAD + body, "utf-8")
    (path.parent / AUTHORITY).write_text(authority_configuration(credentials.users(), credentials.nkeys), "utf-8")


def password_variable(user: str) -> str:
    """Return the variable from which the broker reads the password of *user*."""
    return f"NATS_PASSWORD_{user.upper().replace('-', '_')}"


def authority_configuration(users: Mapping[str, NatsUserRights], nkeys: Mapping[str, str] | None = None) -> str:
    """Return the accounts of a nats-server configuration for *users*; passwords stay variables of its environment."""
    text = json.dumps(broker_accounts(users, lambda user: f"${password_variable(user)}", nkeys or {}), indent=2)
    text = re.sub(r'"(\$NATS_PASSWORD_\w+)"', r"\1", text)  # in quotes it would be the password itself
    return (
        "# Who may publish and subscribe what, and what crosses accounts. Written by: towpath streams authority\n"
        f"system_account: {SYSTEM}\naccounts: {text}\n"
    )


def store(deploy: Path, credentials: BrokerUserList, name: str) -> None:
    """Write the list with what *name* is now; raises `request_invalid` where two names have one password variable."""
    variables = [password_variable(user) for user in credentials.users()]
    if len(set(variables)) < len(variables):
        raise ProblemError(problem("request_invalid", f"{name} differs from another user only in case or punctuation"))
    save(deploy / FILE, credentials)


def require_whole_secrets(folder: Path) -> None:
    """Refuse, before anything is written, a folder of secrets that the broker's own are missing from."""
    if folder.exists() and not (folder / "nats.env").exists():
        detail = f"{folder / 'nats.env'} is not there, so the broker would never learn this password"
        remedy = (
            f"Restore it; or remove {folder} and the volumes that were made with it, and make it again: make-secrets."
        )
        raise ProblemError(problem("file_missing", detail).model_copy(update={"remedy": remedy}))


def write_password(folder: Path, name: str) -> bool:
    """Give *name* a password where it has none yet; False without secrets, which are made for all at once."""
    broker = folder / "nats.env"
    variable = password_variable(name)
    if not broker.exists():
        return False
    known = broker.read_text("utf-8")
    password = next((line.partition("=")[2] for line in known.splitlines() if _sets(line, variable)), "")
    if password and (folder / f"{name}.env").exists():
        return True
    if not password:
        password = f"p{secrets.token_hex(24)}"  # a letter first: the broker reads what looks like a number as one
        start = "" if known.endswith("\n") or not known else "\n"  # the last line of a file that was edited by hand
        with broker.open("a", encoding="utf-8") as file:
            file.write(f"{start}{variable}={password}\n")
    with os.fdopen(os.open(folder / f"{name}.env", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"TOWPATH_NATS_PASSWORD={password}\n")
    return True


def forget_password(folder: Path, name: str) -> None:
    """Take the password of *name* from the broker's and remove its own file."""
    broker = folder / "nats.env"
    if broker.exists():
        variable = password_variable(name)
        kept = [line for line in broker.read_text("utf-8").splitlines() if not _sets(line, variable)]
        broker.write_text("\n".join([*kept, ""]), "utf-8")
    (folder / f"{name}.env").unlink(missing_ok=True)


def _sets(line: str, variable: str) -> bool:
    """Return whether *line* sets just this variable: a name may begin with another, or end with it."""
    return line.startswith(f"{variable}=")
