"""The whole platform on one machine, as one object: `async with Platform(folder) as platform: ...`.

Only this module knows which processes there are and what environment they get. `towpath up` and the tests use it alike,
so what tests kill is what people run.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from towpath.process_arguments import DRAIN_SIGNAL
from towpath_contracts import subjects
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.local_access import LocalAccess
from towpath_embedded.platform_state import (
    DATABASE_FOLDER,
    lock_folder,
    make_folders,
    remove_state,
    wait_for_predecessor,
    write_state,
)
from towpath_embedded.processes import child_process, fork_client, role_names, role_process
from towpath_embedded.processes.child_process import ManagedProcess
from towpath_embedded.processes.log_files import trim_regularly
from towpath_embedded.processes.ports import LOOPBACK, require_free
from towpath_embedded.processes.role_process import RoleProcess, UserCode, WorkerLaunch
from towpath_embedded.processes.supervisor import LONGEST_PAUSE_S, Notice, ProcessInfo, Supervisor
from towpath_embedded.running_servers import RunningServers
from towpath_embedded.servers.broker_recovery import BrokerRecovery
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.start_progress import Working, untold
from towpath_embedded.user_code import UserCodeProcesses
from towpath_embedded.user_code_rights import WorkerInventory
from towpath_fabric.clock import wall

READY_TIMEOUT_S = 60.0
SERVICES = ("log_writer", "tas", "orchestrator", "decider", "gateway", "watchdog")
SERVERS = ("nats", "postgres")
EPHEMERAL_STOP_GRACE_S = "1"  # records of what is at work are thrown away; what tools do outside may be cut off

_log = logging.getLogger(__name__)
BUILTIN_WORKER = WorkerLaunch(builtin=True)


class Platform:
    """NATS, Postgres and every service below the folder *data*; stopped when the block ends.

    *replicas* is how many processes a role has (1 where it is not named; 0 leaves it out). *environment* is added to
    every role's, *role_environment* to one role's. A port that is None is any free one. Without *durable* the database
    survives a kill of its server, but not one of the machine. *notice* gets one line per event for people, *working* is
    told what a start is at.
    *starts* by "fork" import the services once for all of them, as `towpath up` does: see `fork_client`.
    *longest_pause_s* is how long a process that dies again and again is left down.
    """

    def __init__(
        self,
        data: Path,
        *,
        replicas: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        role_environment: Mapping[str, Mapping[str, str]] | None = None,
        workers: Sequence[UserCode] = (BUILTIN_WORKER,),
        gateway_port: int | None = None,
        nats_port: int | None = None,
        durable: bool = True,
        notice: Notice = _log.info,
        working: Working = untold,
        commands: Mapping[str, Sequence[str]] | None = None,
        starts: Literal["exec", "fork"] = "exec",
        longest_pause_s: float = LONGEST_PAUSE_S,
    ) -> None:
        self.data = data.absolute()
        self.logs = self.data / "logs"
        self.started_at = wall()
        self._replicas = {**dict.fromkeys(SERVICES, 1), **(replicas or {})}
        self._environment = dict(environment or {})
        self._role_environment = {role: dict(values) for role, values in (role_environment or {}).items()}
        self.access = LocalAccess(self.data, self._set_for("gateway").get("TOWPATH_AUTH", "auto"))
        self._workers = tuple(workers)
        self._ports = {"gateway": gateway_port, "nats": nats_port}
        self._durable = durable
        self._commands = dict(commands or {})
        self._spawn: child_process.ProcessSpawner = fork_client.spawn if starts == "fork" else child_process.spawn
        self._spawn_user_code = partial(self._spawn, umask=child_process.current_umask())
        self._forks = fork_client.server() if starts == "fork" else None  # it imports while the servers start
        self._notice, self._working = notice, working
        self._supervisor = Supervisor(notice, self._processes_changed, longest_pause_s=longest_pause_s, working=working)
        self._lock = ExitStack()
        self._background_tasks: list[asyncio.Task[None]] = []
        self._units: dict[str, RoleProcess] = {}
        self._worker_users: list[str] = []
        self.user_code = UserCodeProcesses(
            lambda: self.nats,
            command=self._command,
            environment_of=self._environment_of,
            log=self.log,
            spawn=self._spawn_user_code,
        )
        self._nats: Nats | None = None
        self._recovery: BrokerRecovery | None = None
        self._postgres: Postgres | None = None
        self._refused_files: Mapping[str, Sequence[str]] = {}
        self.is_starting = False  # as `state.json` says it to commands, which wait then

    @property
    def nats(self) -> Nats:
        """The broker; RuntimeError before the start."""
        if self._nats is None:
            raise RuntimeError("The platform was not started.")
        return self._nats

    @property
    def postgres(self) -> Postgres:
        """The database server; RuntimeError before the start."""
        if self._postgres is None:
            raise RuntimeError("The platform was not started.")
        return self._postgres

    @property
    def nats_url(self) -> str:
        """Where NATS answers; without a password one is the caller `anonymous`, or refused where keys are asked for."""
        return self.nats.url()

    def nats_url_of(self, user: str) -> str:
        """Where NATS answers *user* of the authority table, with the password."""
        return self.nats.url(user)

    @property
    def gateway_url(self) -> str:
        """Where the gateway answers HTTP; KeyError where none was started."""
        return f"http://{LOOPBACK}:{self._units['gateway'].port}"

    @property
    def client_url(self) -> str:
        """The address of the gateway with the token of who started it, if it asks for one."""
        return self.access.client_url(self.gateway_url)

    def dsn(self, role: str | None = None) -> str:
        """The address of the database as *role*, or as its owner."""
        return self.postgres.dsn() if role is None else self.postgres.dsn(f"towpath_{role}")

    @property
    def processes(self) -> dict[str, ProcessInfo]:
        """Every process by name, with its pid and how often it was started again."""
        return self._supervisor.processes

    def health_url(self, name: str) -> str:
        """Where the process *name* answers `/livez`, `/readyz` and `/metrics`."""
        return f"http://{LOOPBACK}:{self._units[name].port}"

    def log(self, name: str) -> Path:
        """The log file of the process *name*."""
        return self.logs / f"{name}.log"

    def kill(self, name: str) -> None:
        """Kill a process as a crash would; it is started again at once."""
        self._supervisor.kill(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process, SIGSTOP for example."""
        self._supervisor.signal(name, number)

    async def hold(self, name: str, *, gracefully: bool = False) -> None:
        """End a process, by a kill unless *gracefully*, and keep it down until `release`."""
        await self._supervisor.hold(name, gracefully=gracefully)

    def release(self, name: str) -> None:
        """Start a held process again; `wait_ready` waits for it."""
        self._supervisor.release(name)

    async def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every process that is not held is ready; TimeoutError names those that are not."""
        await self._supervisor.wait_ready(timeout_s=timeout_s)

    async def add_worker(self, worker: UserCode) -> list[str]:
        """Start more tool workers or agents, return their names; ProblemError when one does not become ready.

        They connect as whatever is started by hand: a running broker takes no new credentials.
        """
        units = self._worker_units(worker, worker.role)
        await self._supervisor.start(units)
        self.write_state()
        return [unit.name for unit in units]

    async def replace_worker(self, name: str, worker: WorkerLaunch, inventory: WorkerInventory) -> None:
        """Start *worker*, which has the *inventory*, in the place of the process *name*; ProblemError: that one stays.

        That one takes no more calls then, and ends once those that it has are finished.
        """
        unit = self.user_code.replacement(name, worker, inventory)
        await self._supervisor.replace(unit, DRAIN_SIGNAL)
        self._units[name] = unit
        self.write_state()

    async def start(self) -> None:
        """Start everything and wait until it is ready; ProblemError tells what can't be done and what to do.

        What was already started is stopped again when it fails.
        """
        try:
            await self._start_all()
        except BaseException:  # also a cancelled start leaves nothing behind
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop every process in order; what is stored stays. Calling it twice is harmless.

        Where nothing is kept no service has to drain, so the services stop together and the servers after them, the
        broker by a kill: it takes its time to close files that nobody opens again.
        """
        for task in self._background_tasks:
            task.cancel()
        await asyncio.gather(*self._background_tasks, return_exceptions=True)
        self._background_tasks.clear()
        names = list(self._supervisor.processes)
        in_order = [[n for n in names if role_names.role_of(n) == role] for role in role_names.STOP_ORDER]
        together = [[n for n in names if role_names.role_of(n) not in SERVERS], [n for n in names if n in SERVERS]]
        if self._nats is not None and not self._durable:
            self._nats.stop_signal = signal.SIGKILL
        await self._supervisor.stop(in_order if self._durable else together)
        if self._nats is not None:
            remove_state(self.data)
        self._lock.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    async def start_servers(self, workers: Sequence[UserCode] = ()) -> None:
        """Start NATS and Postgres alone, migrated, with all streams and *workers*' credentials; `stop` stops them."""
        self._lock.enter_context(lock_folder(self.data))
        await wait_for_predecessor(self.data)
        self.access.prepare()
        options = {"--port": self._ports["gateway"], "--nats-port": self._ports["nats"]}
        require_free({option: port for option, port in options.items() if port is not None})
        make_folders(self.data)
        self._background_tasks.append(asyncio.create_task(trim_regularly(self.logs), name="trim logs"))
        self._postgres = Postgres(self.data / DATABASE_FOLDER, log=self.log("postgres"), durable=self._durable)
        self._nats = Nats(
            self.data / "nats",
            port=self._ports["nats"],
            users={**USERS, subjects.ANONYMOUS: client_rights(subjects.ANONYMOUS)},
            no_auth_user=None if self.access.asks_for_keys else subjects.ANONYMOUS,
            log=self.log("nats"),
            notice=self._notice,
        )
        told: list[str] = []  # later: where the user's code can't be served, no server was ready
        database = asyncio.create_task(self._start_database(told.append))
        broker = asyncio.create_task(self._start_broker(workers))
        try:
            recovery, _ = await asyncio.gather(broker, database)
        finally:  # whichever fails, the other is not waited for
            broker.cancel()
            database.cancel()
            await asyncio.gather(broker, database, return_exceptions=True)
        for line in told:
            self._notice(line)
        self._background_tasks.append(asyncio.create_task(recovery.run(), name="recover the broker"))
        self.write_state()

    async def _start_all(self) -> None:
        await self.start_servers(self._workers)
        if self._forks is not None:
            await self._forks.wait_ready()
        roles = [role for role in role_names.START_ORDER if role in SERVICES]
        gateways_first = sorted(roles, key=lambda role: role != "gateway")  # others are told where it answers
        units = {role: self._service_units(role, self._replicas[role]) for role in gateways_first}
        pairs = zip(self._workers, self._worker_users, strict=True)
        workers = [unit for worker, user in pairs for unit in self._worker_units(worker, user)]
        await self._supervisor.start([*(unit for role in roles for unit in units[role]), *workers])
        self.write_state()

    async def _start_database(self, tell: Notice) -> None:
        """Start Postgres with all tables; no code of the user is needed for it, and no credential."""
        with self._working("Preparing", "the data of postgres"):
            await asyncio.to_thread(self.postgres.prepare)
        await self._supervisor.start([self.postgres], tell)
        with self._working("Migrating", "the database"):
            await self._prepare_database()

    async def _start_broker(self, workers: Sequence[UserCode]) -> BrokerRecovery:
        """Start NATS with all streams, once its users are known: *workers* are asked what they serve."""
        await self._grant(workers)
        await self._supervisor.start([self.nats])
        self._recovery = recovery = BrokerRecovery(
            self.nats, partial(self.hold, "nats"), partial(self.release, "nats"), self._notice
        )
        with self._working("Declaring", "the streams"):
            await recovery.declare()
        return recovery

    async def _prepare_database(self) -> None:
        await self.postgres.migrate_database()

    def _service_units(self, role: str, count: int) -> list[ManagedProcess]:
        units: list[ManagedProcess] = []
        for number, name in enumerate(role_names.replica_names(role, count)):
            self._units[name] = RoleProcess(
                name,
                self._command(role),
                log=self.log(name),
                environment=self._environment_of(role, name),
                port_variable="TOWPATH_GATEWAY_PORT" if role == "gateway" else "TOWPATH_HEALTH_PORT",
                port=self._ports["gateway"] if (role, number) == ("gateway", 0) else None,
                spawn=self._spawn,
                keeps_port=True,
            )
            units.append(self._units[name])
        return units

    async def _grant(self, workers: Sequence[UserCode]) -> None:
        """Give each of *workers* a credential for what it serves; the broker must not run yet."""
        if self._forks is not None:  # by a fork the code is asked in a tenth of the time
            with self._working("Importing", "the services"):
                await self._forks.wait_ready()
        with self._working("Reading", "the tools"):
            self._worker_users = await self.user_code.grant(workers)

    def _command(self, role: str) -> Sequence[str]:
        return self._commands.get(role) or role_process.module_command(role)

    def _worker_units(self, code: UserCode, user: str) -> list[ManagedProcess]:
        present = sum(role_names.role_of(name) == code.role for name in self._units)
        units = self.user_code.units(code, user, present)
        self._units.update({unit.name: unit for unit in units})
        return [*units]

    def _environment_of(self, role: str, name: str) -> dict[str, str]:
        servers = RunningServers(self.data, self.nats.url(), self.nats.password, self.dsn)
        environment = servers.environment_of(role, name, self.access)
        if role == "orchestrator" and "gateway" in self._units:
            environment.setdefault("TOWPATH_CONSOLE_URL", self.gateway_url)
        if not self._durable:
            environment.setdefault("TOWPATH_STOP_GRACE_S", EPHEMERAL_STOP_GRACE_S)
        return {**environment, **self._set_for(role)}

    def _set_for(self, role: str) -> dict[str, str]:
        inherited = {name: value for name, value in role_process.inherited(role).items() if name == "TOWPATH_AUTH"}
        return {**inherited, **self._environment, **self._role_environment.get(role, {})}

    def _processes_changed(self) -> None:
        self.write_state()
        if self._recovery is not None:
            self._recovery.restarted()

    def write_state(self) -> None:
        """Write `state.json` for other programs of this user."""
        write_state(self.data, {**self.describe(), "starting": self.is_starting})

    def keep_refused(self, faults: Mapping[str, Sequence[str]]) -> None:
        """Keep in `state.json` what is wrong with files that were refused."""
        self._refused_files = faults
        self.write_state()

    def describe(self) -> dict[str, Any]:
        """Return where everything is, as `state.json` and `up --json` show it, without any password."""
        return {
            "schema_version": 1,
            "pid": os.getpid(),
            "started_at": self.started_at.isoformat(),
            "data": str(self.data),
            "logs": str(self.logs),
            # A program that reads the file finds no gateway before it answers.
            "gateway_url": self.gateway_url if "gateway" in self.processes else None,
            "authorization_file": str(self.access.file),
            "nats_url": self.nats_url,
            "nats_passwords": str(self.nats.folder / "passwords.json"),
            "database_url": self.dsn(),
            "refused_files": {file: list(faults) for file, faults in self._refused_files.items()},
            "processes": {
                name: {
                    "pid": state.pid,
                    "restarts": state.restarts,
                    "log": str(self.log(name)),
                    **({"health_url": self.health_url(name)} if name in self._units else {}),
                }
                for name, state in self.processes.items()
            },
        }
