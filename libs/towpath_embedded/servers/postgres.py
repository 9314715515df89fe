"""An embedded PostgreSQL: the files come from a wheel, the server is ours to start, kill and start again.

It listens on a Unix socket only, and the socket's folder is closed to other users: that folder is the lock, since
connections are trusted. As root the server runs as another user, whose processes can enter it: then it asks the kernel
who connects, and lets in root alone. A commit is durable when it returns (`fsync` and `synchronous_commit` are on).
"""

import asyncio
import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

import asyncpg

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.processes import child_process
from towpath_embedded.processes.child_process import ProcessUser
from towpath_embedded.servers.postgres_identity import (
    data_folder,
    make_owner,
    postgres_home,
    postgres_identity,
    reachable,
    runnable_home,
)
from towpath_fabric.file_owners import write_private
from towpath_fabric.postgres.migrations import migrate

DATABASE = "towpath"
OWNER = "postgres"
PORT = 5432  # only names the socket file
START_TIMEOUT_S = 60  # crash recovery after a kill under load may take long
STOP_TIMEOUT_S = 20
RETRY_S = 0.2
SOCKET_PATH_LIMIT = 107  # bytes in sockaddr_un on Linux
READY_LINE = 7  # the eighth line of postmaster.pid
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "",
        "fsync": "on",
        "synchronous_commit": "on",
        "max_connections": "100",
        "shared_buffers": "128MB",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "logging_collector": "off",
        # After a crash: one call for the file system instead of one for each of a thousand files (1 s or more).
        **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
    }
)
_THROWN_AWAY = MappingProxyType({"fsync": "off", "full_page_writes": "off"})
_ENVIRONMENT = MappingProxyType({"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "HOME": "/"})
_INITDB = (
    *("-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "--locale-provider=builtin"),
    *("--builtin-locale=C.UTF-8", "--no-instructions"),
)
# What a server logs while one that was killed, or is just stopping, still holds the data.
_HELD = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists', ".lock already exists")


class Postgres:
    """One server on the data below *folder*; it can be started again on the same data and address after any end.

    Without *durable* the data survives a kill of the server, but not one of the machine: for data that is thrown away.
    """

    name = "postgres"
    stop_signal: signal.Signals = signal.SIGINT  # a fast shutdown: sessions are ended, the data is left clean
    stop_timeout_s: float = STOP_TIMEOUT_S

    def __init__(self, folder: Path, *, log: Path | None = None, durable: bool = True) -> None:
        self.folder = folder.absolute()
        self.log = (log or folder / "postgres.log").absolute()
        self.process: child_process.ChildProcess | None = None
        self._durable = durable
        self._identity = postgres_identity()
        self._home = runnable_home(postgres_home(), self._identity)
        self._data: Path | None = None
        self._sockets: Path | None = None
        self._temporary_sockets: Path | None = None
        self._rules: Path | None = None
        self._temporary_rules: Path | None = None

    def dsn(self, user: str = OWNER, database: str = DATABASE) -> str:
        """Address *database* as *user*; valid from the first start on."""
        return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(str(self.socket_folder))}&port={PORT}"

    @property
    def socket_folder(self) -> Path:
        """Where its socket is; RuntimeError before the first start."""
        if self._sockets is None:
            raise RuntimeError("Postgres has no address before its first start.")
        return self._sockets

    def spawn(self) -> None:
        """Start the server process without waiting for it; on first use make its data (within a second)."""
        data = self.prepare()
        words: list[str | Path] = [self._home / "bin" / "postgres", "-D", data]
        place = {"port": str(PORT), "unix_socket_directories": str(self._sockets), **self._access()}
        for key, value in {**SETTINGS, **({} if self._durable else _THROWN_AWAY), **place}.items():
            words += ["-c", f"{key}={value}"]
        self.process = child_process.spawn(
            words, log=self.log, environment=_ENVIRONMENT, death_signal=signal.SIGINT, identity=self._identity
        )

    async def ready(self) -> bool:
        """Return whether the server that was started last takes connections."""
        if self.process is None or self.process.poll() is not None or self._data is None:
            return False
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        # The file of a killed server still has "ready": the first line is the pid of its owner.
        return len(lines) > READY_LINE and lines[0] == str(self.process.pid) and lines[READY_LINE].strip() == "ready"

    async def start(self) -> None:
        """Start the server and wait until it takes connections; raise `service_failed` when it does not."""
        end, since = time.monotonic() + START_TIMEOUT_S, child_process.log_end(self.log)
        self.spawn()
        while not await child_process.became_ready(self, timeout_s=end - time.monotonic()):
            ended = self.process is None or self.process.poll() is not None
            if not ended or not self._held() or time.monotonic() > end:
                await self.stop()
                what = "ended" if ended else f"was not ready within {START_TIMEOUT_S} s"
                raise ProblemError(child_process.failure(self.name, self.log, what, since=since))
            await asyncio.sleep(RETRY_S)
            self.spawn()

    async def stop(self) -> None:
        """Shut the server down; sessions that are still open are ended."""
        if self.process is not None:
            await child_process.stop(self.process, with_signal=self.stop_signal, timeout_s=self.stop_timeout_s)
        if self._temporary_sockets is not None:
            shutil.rmtree(self._temporary_sockets, ignore_errors=True)
        if self._temporary_rules is not None:
            shutil.rmtree(self._temporary_rules, ignore_errors=True)
            self._rules = self._temporary_rules = None

    async def ensure_database(self, name: str = DATABASE) -> None:
        """Create the database *name* unless it exists."""
        connection = await asyncpg.connect(self.dsn(database="postgres"))
        try:
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", name):
                await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()

    async def migrate_database(self) -> None:
        """Bring the platform's database up to date, and create it first where there is none."""
        await self.ensure_database()
        try:
            await migrate(self.dsn())
        except asyncpg.PostgresError as error:
            raise ProblemError(problem("service_failed", f"The database could not be migrated: {error}")) from error

    def prepare(self) -> Path:
        """Make what a start needs, its data above all, where that is not there; return where the data is."""
        if self._sockets is None:
            self._sockets = self._socket_folder()
        elif not self._sockets.exists():  # a temporary one, removed by `stop`; a planted one is refused here
            self._sockets.mkdir(mode=0o700)
            make_owner(self._sockets, self._identity)
        if self._data is None:
            cluster = data_folder(self.folder / "cluster", self._identity)
            if not (cluster / "data").exists():
                self._initialise(cluster)
            self._data = cluster / "data"
        return self._data

    def _initialise(self, cluster: Path) -> None:
        """Make the data beside its place and move it there whole, so that a killed initdb leaves nothing half made."""
        making = cluster / "making"
        shutil.rmtree(making, ignore_errors=True)
        template = PostgresTemplate(self._home, _INITDB)
        if not template.copy_to(making, self._identity):
            self._run_initdb(making, *_INITDB, "--no-sync")
            template.keep(making)
        if self._durable:
            self._run_initdb(making, "--sync-only")
        making.rename(cluster / "data")

    def _run_initdb(self, data: Path, *options: str) -> None:
        command: list[str | Path] = [self._home / "bin" / "initdb", "-D", data, *options]
        done = child_process.run(command, identity=self._identity, environment=_ENVIRONMENT)
        if done.returncode:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.write_text(done.stdout + done.stderr)
            raise ProblemError(child_process.failure(self.name, self.log, "could not make its data"))

    def _socket_folder(self) -> Path:
        """The folder below our own if the server can reach it and its path is short enough, else a temporary one."""
        wanted = self.folder / "run"
        self.folder.mkdir(parents=True, exist_ok=True)
        fits = len(os.fsencode(wanted / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_LIMIT
        if fits and (self._identity.user is None or reachable(self.folder, self._identity.user)):
            wanted.mkdir(exist_ok=True)
        else:
            wanted = self._temporary_sockets = Path(tempfile.mkdtemp(prefix="towpath-"))
        make_owner(wanted, self._identity)
        return wanted

    def _access(self) -> dict[str, str]:
        """Return the settings by which a server of another user lets in this process's user alone."""
        if self._identity.user is None:
            return {}
        if self._rules is None or not self._rules.exists():
            own = self.folder if reachable(self.folder, self._identity.user) else None
            if own is None:
                own = self._temporary_rules = Path(tempfile.mkdtemp(prefix="towpath-"))
                own.chmod(0o711)
            self._rules = own
        user = pwd.getpwuid(os.geteuid()).pw_name
        for name, text in (("hba", "local all all peer map=towpath\n"), ("ident", f"towpath {user} all\n")):
            file = self._rules / f"{name}.conf"
            write_private(file, text)
            file.chmod(0o644)
        return {f"{name}_file": str(self._rules / f"{name}.conf") for name in ("hba", "ident")}

    def _held(self) -> bool:
        tail = child_process.log_tail(self.log, lines=4)
        return any(phrase in tail for phrase in _HELD)


class PostgresTemplate:
    """What initdb of *home* makes with *options*, in the user's cache: to copy it takes a tenth of initdb's time.

    Nobody but the user of this process may read or write it. Databases of one template have the same system identifier,
    by which only replicas and archives of write-ahead logs tell servers apart: these have neither.
    """

    def __init__(self, home: Path, options: Sequence[str]) -> None:
        from platformdirs import user_cache_path  # of the extra `embedded`: a backup of another server does without it

        written = f"{home}\0{(home / 'bin' / 'initdb').stat().st_mtime_ns}\0{options}".encode()
        self._cache = user_cache_path("towpath")
        self._data = self._cache / f"postgres-{hashlib.sha256(written).hexdigest()[:16]}"

    def copy_to(self, data: Path, identity: ProcessUser) -> bool:
        """Make *data* a copy that belongs to *identity*; False, with nothing there, where no copy can be had."""
        try:
            status = self._data.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:  # not made here
                return False
            shutil.copytree(self._data, data, copy_function=shutil.copy)
            _give(data, identity)
        except (OSError, shutil.Error):
            shutil.rmtree(data, ignore_errors=True)
            return False
        return True

    def keep(self, data: Path) -> None:
        """Keep a copy of *data*, fresh from initdb, where the cache takes it."""
        with contextlib.suppress(OSError, shutil.Error):
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._cache) as making:
                copy = Path(making, "data")
                shutil.copytree(data, copy, copy_function=shutil.copy)
                copy.chmod(0o700)
                os.sync()  # or a crash of the machine might leave a whole template of empty files
                copy.rename(self._data)  # whole or not at all; refused where another process was faster


def _give(folder: Path, identity: ProcessUser) -> None:
    """Make *identity* the owner of *folder* and all in it."""
    if identity.user is None or identity.group is None:
        return
    for place, _, files in os.walk(folder):
        os.chown(place, identity.user, identity.group)
        for name in files:
            os.chown(os.path.join(place, name), identity.user, identity.group)  # noqa: PTH118 - a thousand of them
