"""The tool workers and agents of a platform: their credentials, their processes, and the one that replaces a worker."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from towpath_embedded.processes import role_names
from towpath_embedded.processes.child_process import ProcessSpawner
from towpath_embedded.processes.role_process import RoleProcess, UserCode, WorkerLaunch
from towpath_embedded.servers.nats import Nats
from towpath_embedded.user_code_rights import WorkerInventory, inventory_of, rights_of

_USERS_OF = {"worker": "tools", "agent": "agents"}
"""Beginnings of the credentials of user code that is there when the broker starts. What comes later
connects as whatever is started by hand: the user named after its role, for everything of its kind."""


class UserCodeProcesses:
    """Makes the processes of *launches*, and of what is added to them later.

    *environment_of* returns the environment of a role's process by its name, *command* what starts a role, *log* the
    log file of a process.
    """

    def __init__(
        self,
        nats: Callable[[], Nats],
        *,
        command: Callable[[str], Sequence[str]],
        environment_of: Callable[[str, str], dict[str, str]],
        log: Callable[[str], Path],
        spawn: ProcessSpawner,
    ) -> None:
        self._nats = nats
        self._command = command
        self._environment_of = environment_of
        self._log = log
        self._spawn = spawn
        self._users: dict[str, str] = {}
        self._served: dict[str, WorkerInventory] = {}

    async def grant(self, launches: Sequence[UserCode]) -> list[str]:
        """Give each of *launches* a credential for what it serves, and return these; the broker must not run yet.

        Raises ProblemError where the modules of a worker can't be served.
        """
        users = [f"{_USERS_OF[code.role]}_{number}" for number, code in enumerate(launches, 1)]
        environments = [
            {**self._environment_of(code.role, user), **code.environment}
            for code, user in zip(launches, users, strict=True)
        ]
        found = await asyncio.gather(
            *(
                rights_of(
                    code,
                    self._command(code.role),
                    user,
                    output=self._output(user),
                    environment=environment,
                    spawn=self._spawn,
                )
                for code, user, environment in zip(launches, users, environments, strict=True)
            )
        )
        self._nats().add_users({user: rights for user, (rights, _) in zip(users, found, strict=True)})
        self._served.update({user: served for user, (_, served) in zip(users, found, strict=True)})
        return users

    def units(self, code: UserCode, user: str, present: int) -> list[RoleProcess]:
        """Return the processes of *code*, which connect as *user*, beside the *present* ones of its role."""
        names = role_names.replica_names(code.role, present + code.count)[present:]
        return [self._unit(name, code, user) for name in names]

    def served_by(self, name: str) -> WorkerInventory:
        """Return what the process *name* was found to serve when its credential was made."""
        return self._served.get(self._users.get(name, ""), WorkerInventory())

    async def inventory(self, name: str, worker: WorkerLaunch) -> WorkerInventory:
        """Return what *worker* would serve in the place of the process *name*; ProblemError where it can't."""
        environment: Mapping[str, str] = {**self._environment_of(worker.role, name), **worker.environment}
        return await inventory_of(
            worker, self._command(worker.role), output=self._output(name), environment=environment, spawn=self._spawn
        )

    def replacement(self, name: str, worker: WorkerLaunch, inventory: WorkerInventory) -> RoleProcess:
        """Return a process with the *inventory* of *worker* that can take the place of the process *name*.

        Its credential is the same one, unless it serves a toolset that this one is not for.
        """
        user = self._users[name]
        known = self._served.get(user)
        is_granted = known is None or {*inventory.toolsets} <= {*known.toolsets}
        return self._unit(name, worker, user if is_granted else worker.role)

    def _unit(self, name: str, code: UserCode, user: str) -> RoleProcess:
        self._users.setdefault(name, user)
        login = {"TOWPATH_NATS_USER": user, "TOWPATH_NATS_PASSWORD": self._nats().password(user)}
        return RoleProcess(
            name,
            (*self._command(code.role), *code.arguments()),
            log=self._log(name),
            environment={**self._environment_of(code.role, name), **login, **code.environment},
            directory=code.directory,
            spawn=self._spawn,
        )

    def _output(self, user: str) -> Path:
        return self._nats().folder / f"{user}.served"
