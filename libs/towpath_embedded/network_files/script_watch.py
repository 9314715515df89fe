"""Looks at the scripts that the networks of a folder play, as soon as one is saved.

A decider reads a script when a run asks, and nothing that was read before goes on: one that is saved broken fails every
run that plays it. So it is told at once, and kept with the refused files until it can be played.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from towpath.networks.script_files import (
    TASK,
    played_scripts,
    read_script_file,
    script_doubts,
    script_path,
    task_script_hint,
)
from towpath_contracts.base import JsonObject
from towpath_embedded.processes.supervisor import Notice
from towpath_embedded.refused_files import ShowRefused

SCRIPT_FOLDER = "TOWPATH_SCRIPT_DIR"
"""The variable that names a folder of scripts for deciders."""


def script_folder(networks: Path) -> Path:
    """Return where the scripts of *networks*, a folder or a file, lie: beside them, unless the environment says it."""
    beside = networks if networks.is_dir() else networks.parent
    return Path(os.environ.get(SCRIPT_FOLDER) or beside)


class ScriptWatch:
    """What is wrong with each script of *folder* that a network names; *refused* gets it, and that it is mended."""

    def __init__(self, folder: Path, refused: ShowRefused, notice: Notice) -> None:
        self._folder = folder
        self._refused = refused
        self._notice = notice
        self._seen: dict[Path, tuple[int, int] | None] = {}
        self._faulty: set[Path] = set()
        self._hinted: set[str] = set()

    def look(self, specs: Collection[JsonObject]) -> None:
        """Tell what is new of the scripts that the published networks *specs* play."""
        players: dict[Path, list[str]] = {}
        for spec in specs:
            for name, agents in played_scripts(spec).items():
                if name == TASK:
                    self._hint(str(spec["name"]), agents)
                else:
                    players.setdefault(script_path(self._folder, name), []).extend(agents)
        self._forget_all_but(players)
        for path, agents in players.items():
            version = _version(path)
            if path in self._seen and self._seen[path] == version:
                continue
            self._seen[path] = version
            script, faults = read_script_file(path, self._folder, agents)
            self._put(path, faults, script_doubts(script, agents))

    def _put(self, path: Path, faults: list[str], doubts: list[str]) -> None:
        was_faulty = path in self._faulty
        (self._faulty.add if faults else self._faulty.discard)(path)
        if faults or was_faulty:
            self._refused(str(path), faults)
        if was_faulty and not faults:
            self._notice(f"{path.name}: the script can be played again")
        for doubt in doubts:
            self._notice(doubt)

    def _forget_all_but(self, named: Mapping[Path, list[str]]) -> None:
        for path in self._seen.keys() - named.keys():
            del self._seen[path]
            if path in self._faulty:  # no network plays it any more, or another file has its name
                self._faulty.discard(path)
                self._refused(str(path), ())

    def _hint(self, network: str, agents: list[str]) -> None:
        if network not in self._hinted:
            self._hinted.add(network)
            self._notice(task_script_hint(network, agents))


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
