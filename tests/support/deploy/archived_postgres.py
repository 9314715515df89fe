"""A Postgres as people run it themselves: with the settings of a file, on data of its own or on a base backup."""

import shutil
import signal
from pathlib import Path

from towpath_embedded.processes import child_process
from towpath_embedded.servers.postgres import PORT, Postgres
from towpath_embedded.servers.postgres_identity import make_owner

_THROWN_AWAY = "fsync = off\nlisten_addresses = ''\n"
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}


class ArchivedPostgres(Postgres):
    """A server whose file ends with *settings*; with the data of a *base* backup it first does what its log says."""

    def __init__(self, folder: Path, settings: str, base: Path | None = None) -> None:
        super().__init__(folder, durable=False)
        self._settings = settings
        self._base = base

    def spawn(self) -> None:
        """Start it with its file alone, apart from where it is reached."""
        data = self.prepare()
        place = ["-c", f"port={PORT}", "-c", f"unix_socket_directories={self.socket_folder}"]
        self.process = child_process.spawn(
            [self._home / "bin" / "postgres", "-D", data, *place],
            log=self.log, environment=_ENVIRONMENT, death_signal=signal.SIGINT, identity=self._identity,
        )  # fmt: skip

    def own(self, folder: Path) -> None:
        """Give the server a folder with all that is in it."""
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                make_owner(path, self._identity)
            elif self._identity.user is not None and self._identity.group is not None:
                shutil.chown(path, self._identity.user, self._identity.group)

    def _initialise(self, cluster: Path) -> None:
        if self._base is None:
            super()._initialise(cluster)
        else:
            shutil.copytree(self._base, cluster / "data")
            (cluster / "data" / "recovery.signal").touch()
            self.own(cluster / "data")
        with (cluster / "data" / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"{_THROWN_AWAY}{self._settings}")
