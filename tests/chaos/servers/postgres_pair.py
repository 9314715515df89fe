"""A Postgres primary and its standby on this machine: two servers, either of which can be primary.

They answer on the loopback, where anybody is trusted: what they hold is thrown away. A primary waits with each commit
for a standby that is connected as synchronous; which it is, is set once the standby has caught up, and taken back for a
server that is promoted, as whatever runs Postgres for people does: it would wait for a standby that is not there.
"""

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Final

import asyncpg
from tests.chaos.load.findings import signal_tree

from towpath_embedded.processes import child_process
from towpath_embedded.processes.ports import LOOPBACK, free_port
from towpath_embedded.servers.postgres import OWNER, Postgres
from towpath_fabric.clock import monotonic

NAMES: Final = ("one", "two")
READY_LINE: Final = 7
READY: Final = ("ready", "standby")
IN_STEP_S: Final = 60.0
LOOK_S: Final = 0.05
ANSWERS_S: Final = 2.0


class ReplicatedPostgres(Postgres):
    """One of the two. It makes its data by initdb, or as a copy of *follows*, whose standby it is then."""

    def __init__(self, folder: Path, name: str, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        self.own_name = name
        self.tcp_port = free_port()
        self.follows: ReplicatedPostgres | None = None

    def address(self, user: str = OWNER, database: str = "towpath") -> str:
        """Address *database* here alone as *user*."""
        return f"postgresql://{user}@{LOOPBACK}:{self.tcp_port}/{database}"

    async def ready(self) -> bool:
        """Return whether it takes connections, as primary or standby."""
        if self.process is None or self.process.poll() is not None or self._data is None:
            return False
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > READY_LINE and lines[0] == str(self.process.pid) and lines[READY_LINE].strip() in READY

    def forget(self) -> None:
        """Remove its data, so that the next start makes it anew."""
        if self._data is not None:
            shutil.rmtree(self._data)
            self._data = None

    def follow(self, primary: "ReplicatedPostgres") -> None:
        """Be a standby of *primary* from the next start on, on the data that is here."""
        assert self._data is not None
        self.follows = primary
        where = f"host={LOOPBACK} port={primary.tcp_port} user={OWNER} application_name={self.own_name}"
        self._run("bin/postgres", "-D", self._data, "-C", "port")  # fails where the data is no server's
        settings = self._data / "postgresql.auto.conf"
        settings.write_text(f"primary_conninfo = '{where}'\n")
        (self._data / "standby.signal").touch()

    def promote(self) -> None:
        """Make it primary; returns once it takes writes."""
        assert self._data is not None
        self.follows = None
        self._run("bin/pg_ctl", "promote", "-D", self._data, "-w")

    def strike(self, number: signal.Signals) -> None:
        """Send a signal to the server and all of its processes."""
        assert self.process is not None
        signal_tree(self.process.pid, number)

    def _initialise(self, cluster: Path) -> None:
        if self.follows is None:
            super()._initialise(cluster)
            return
        making = cluster / "making"
        shutil.rmtree(making, ignore_errors=True)
        place = ["-h", LOOPBACK, "-p", str(self.follows.tcp_port), "-U", OWNER]
        self._run("bin/pg_basebackup", *place, "-D", making, "-X", "stream", "-c", "fast", "--no-sync")
        making.rename(cluster / "data")
        self._data = cluster / "data"
        self.follow(self.follows)

    def _access(self) -> dict[str, str]:
        rules = self.folder / "hba.conf"
        rules.write_text(
            f"local all all trust\nhost all all {LOOPBACK}/32 trust\nhost replication all {LOOPBACK}/32 trust\n"
        )
        rules.chmod(0o644)
        return {
            "hba_file": str(rules),
            "listen_addresses": LOOPBACK,
            "port": str(self.tcp_port),
            "wal_level": "replica",
            "max_wal_senders": "4",
            "hot_standby": "on",
            "wal_receiver_status_interval": "1",
        }

    def _run(self, program: str, *words: str | Path) -> None:
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}
        done = child_process.run([self._home / program, *words], identity=self._identity, environment=environment)
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stdout} {done.stderr}")


class PostgresPair:
    """A primary and a synchronous standby, and the faults of the primary."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.servers = tuple(ReplicatedPostgres(folder / f"postgres-{name}", name, durable=durable) for name in NAMES)
        self.primary, self.standby = self.servers

    def dsn(self, user: str, database: str = "towpath") -> str:
        """Address whichever of both takes writes, in the order in which people wrote them down."""
        hosts = ",".join(f"{LOOPBACK}:{server.tcp_port}" for server in self.servers)
        return f"postgresql://{user}@{hosts}/{database}?target_session_attrs=read-write"

    async def start(self) -> None:
        """Start both, with an empty database; return once the standby is synchronous."""
        self.primary.folder.parent.chmod(0o711)
        await self.primary.start()
        owner = await asyncpg.connect(self.primary.address(database="postgres"))
        await owner.execute("CREATE DATABASE towpath")
        await owner.close()
        await self.add_standby()

    async def stop(self) -> None:
        """End both, frozen ones too."""
        for server in self.servers:
            if server.process is not None:
                server.strike(signal.SIGKILL)
            await server.stop()

    async def add_standby(self) -> None:
        """Make the other server a standby of the primary, by a base backup, and wait with commits for it."""
        self.standby.forget()
        self.standby.follows = self.primary
        await self.standby.start()
        await self.wait_for_standby()

    async def lose_primary(self) -> None:
        """Kill the primary with all of its processes; the standby stays one."""
        self.primary.strike(signal.SIGKILL)
        await self.primary.stop()

    async def switch_over(self) -> None:
        """Stop the primary as an upgrade does, once the standby has all of it; the standby stays one."""
        await self.primary.stop()

    async def promote(self) -> None:
        """Make the standby the primary."""
        promoted, old = self.standby, self.primary
        await asyncio.to_thread(promoted.promote)
        self.primary, self.standby = promoted, old

    async def return_old_primary(self) -> None:
        """Start a primary that was stopped in order as the standby of the promoted one: it has nothing of its own."""
        self.standby.follow(self.primary)
        await self.standby.start()
        await self.wait_for_standby()

    async def wait_for_standby(self) -> None:
        """Have commits wait for the standby, and return once they do."""
        owner = await asyncpg.connect(self.primary.address(database="postgres"))
        try:
            await owner.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{self.standby.own_name}'")
            await owner.execute("SELECT pg_reload_conf()")
            end = monotonic() + IN_STEP_S
            while not await owner.fetchval(
                "SELECT true FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'"
                " AND (SELECT setting <> '' FROM pg_settings WHERE name = 'synchronous_standby_names')"
            ):
                if monotonic() > end:
                    raise TimeoutError(f"the standby was not synchronous after {IN_STEP_S} s; see {self.standby.log}")
                await asyncio.sleep(LOOK_S)
        finally:
            await owner.close()
