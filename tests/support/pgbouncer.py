"""A real PgBouncer before a Postgres of the tests, in transaction mode; and what it takes to have one."""

import os
import re
import shutil
import signal
from pathlib import Path

from towpath_embedded.processes import child_process
from towpath_embedded.processes.ports import free_port

DEMANDED = "TOWPATH_TESTS_DEMAND_PGBOUNCER"
"""A machine that sets this fails without PgBouncer, instead of leaving its tests out."""

NAMED = "pgbouncer"
"""Tests that need it have this in their name."""

HOW = "pgbouncer on the path (Debian: apt-get install pgbouncer)"
ROLES = ("towpath_orchestrator", "towpath_tas", "towpath_gateway", "towpath_log_writer")


def pgbouncer_path() -> str | None:
    """Return the program, None where there is none."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def is_left_out(name: str) -> bool:
    """Return whether the test *name* can't be run here, and need not be."""
    demanded = os.environ.get(DEMANDED, "") not in ("", "0")
    return re.search(rf"_{NAMED}(_|$)", name) is not None and pgbouncer_path() is None and not demanded


class PgBouncer:
    """One process with two server connections for each role, which change from transaction to transaction."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.process: child_process.ChildProcess | None = None

    def dsn(self, role: str, database: str) -> str:
        """Address *database* through it as *role*."""
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def start(self, socket_folder: Path, database: str) -> None:
        """Start it before the server whose socket is in *socket_folder*."""
        users = self._folder / "userlist.txt"
        users.write_text("".join(f'"{role}" ""\n' for role in ROLES))
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            f"[databases]\n{database} = host={socket_folder} port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n"
            "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n"
            + ("user = nobody\n" if os.geteuid() == 0 else "")
        )
        for path in (self._folder, users, configuration):
            path.chmod(path.stat().st_mode | 0o055 if path.is_dir() else 0o644)
        self.process = child_process.spawn(
            [pgbouncer_path() or "pgbouncer", configuration],
            log=self._folder / "pgbouncer.log",
            environment={},
            death_signal=signal.SIGTERM,
        )

    async def stop(self) -> None:
        """End it."""
        if self.process is not None:
            await child_process.stop(self.process, with_signal=signal.SIGTERM, timeout_s=10)
