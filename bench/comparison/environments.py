"""An environment for each peer in a cache folder, made by uv and npm: peers are no dependencies of the project."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from comparison.systems import Peer

INSTALL_S = 600
REASON_CHARACTERS = 200


class Environment(NamedTuple):
    """The programs of an installed peer: its Python, and its own server where it has one."""

    python: Path
    server: Path | None


class NotInstalledError(Exception):
    """The peer could not be installed, with the reason."""


def cache_folder() -> Path:
    """Return where environments are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "towpath" / "bench"


def last_line(text: str) -> str:
    """Return the last line with something in it, which is where programs name their error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:REASON_CHARACTERS] if lines else "no message"


def install(name: str, peer: Peer, cache: Path) -> Environment:
    """Make the peer's environment or bring it up to date; raise NotInstalledError."""
    folder = cache / f"{name}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    uv = os.environ.get("UV", "uv")
    if not python.exists():
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
    _run(uv, "pip", "install", "--quiet", "--python", str(python), *peer.requirements)
    return Environment(python, _install_server(name, peer.npm, cache) if peer.npm else None)


def _install_server(name: str, package: str, cache: Path) -> Path:
    """Install an npm package that brings a program for this platform; returns the program."""
    folder = cache / f"{name}-npm"
    folder.mkdir(parents=True, exist_ok=True)
    _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", package)
    scope, _, program = package.rpartition("@")[0].partition("/")
    found = sorted((folder / "node_modules" / scope).glob(f"{program}-*/bin/{program}"))
    if not found:
        raise NotInstalledError(f"{package} has no program for this platform")
    return found[0]


def _run(*words: str) -> None:
    # uv would otherwise take the project's environment for the one that is meant.
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{words[0]}: {error}") from error
    if done.returncode:
        raise NotInstalledError(f"{words[0]} {words[1]}: {last_line(done.stderr or done.stdout)}")
