"""Files that `towpath up` was given and the platform refused: told at once, and kept until they are mended."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from towpath_contracts.problems.input_faults import locate_fault

_APPLIED, _UNCHANGED, _REFUSED, _PROBLEM = "policy applied", "policy unchanged", "policy refused", "policy problem"

ShowRefused = Callable[[str, Sequence[str]], None]
"""Gets a file and what is wrong with it; nothing once it is mended."""


class FileFate(StrEnum):
    """What becomes of a file with faults, as a person is told it."""

    REFUSED = "was refused, and what was in force before stays"
    NEW = "was refused"
    NEW_POLICY = "was refused, and no rule is in force"
    SCRIPT = "can't be played, and runs that ask for it fail"
    TOOLS = "was refused, and the worker goes on with what it has"


class ShowFaults(Protocol):
    """Shows a file that was refused, or a script that can't be played, with what is wrong with it."""

    def __call__(self, file: str, faults: Sequence[str], fate: FileFate = FileFate.REFUSED) -> None:
        """Show *faults* of *file*."""


class RefusedFiles:
    """What is wrong with each file that was refused, by its name.

    *show* gets a file with its faults; *changed* gets all of them after each change.
    """

    def __init__(self, show: ShowFaults, changed: Callable[[Mapping[str, Sequence[str]]], None]) -> None:
        self.faults: dict[str, tuple[str, ...]] = {}
        self._show = show
        self._changed = changed
        self._policy = ""
        self._policy_faults: list[str] = []
        self._expected = 0
        self._fate = FileFate.REFUSED

    def put(self, file: str, faults: Sequence[str], fate: FileFate = FileFate.REFUSED) -> None:
        """Keep and tell the *faults* of *file*; without any it is mended."""
        before = self.faults.pop(file, ())
        if faults:
            self.faults[file] = tuple(faults)
            self._show(file, faults, fate)
        if faults or before:
            self._changed(self.faults)

    def told_of_policy(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was *told* of a start, its policy with the file that is refused until it is mended."""
        if "policy" not in told or self._policy not in self.faults:
            return dict(told)
        return {**told, "policy": {**told["policy"], "refused": self._policy}}

    def put_new(self, file: str, faults: Sequence[str]) -> None:
        """Do what `put` does of a file of which nothing was in force before."""
        self.put(file, faults, FileFate.NEW)

    def put_script(self, file: str, faults: Sequence[str]) -> None:
        """Do what `put` does of a script: nothing that was in force before goes on in its place."""
        self.put(file, faults, FileFate.SCRIPT)

    def read_log_line(self, name: str, line: str) -> bool:
        """Return whether *line* of the process *name* is about a policy file and nothing else is to tell of it.

        What it says of a file that was refused, or is mended, is kept.
        """
        record = _record(name, line)
        event, file = record.get("event"), str(record.get("file", ""))
        if event in {_APPLIED, _UNCHANGED}:
            was_refused = file in self.faults
            self.put(file, ())
            return event == _UNCHANGED and not was_refused
        if event == _REFUSED:
            self._policy = file
            self._policy_faults, self._expected = [], int(record.get("problems", 0))
            self._fate = FileFate.NEW_POLICY if record.get("kept") == 0 else FileFate.REFUSED
            if not self._expected:
                self.put(file, [f"{file}: {record.get('problem', 'it was refused')}"], self._fate)
            return True
        if event == _PROBLEM:
            self._policy_faults.append(locate_fault(file, str(record.get("problem", ""))))
            if len(self._policy_faults) == self._expected:
                self.put(file, self._policy_faults, self._fate)
            return True
        return False


def _record(name: str, line: str) -> dict[str, Any]:
    if name.partition("-")[0] != "tas" or '"policy ' not in line:
        return {}
    try:
        found: Any = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
