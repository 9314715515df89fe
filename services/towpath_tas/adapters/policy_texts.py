"""Reads the text of a policy as people write it: with its profile written out, its conditions compiled as CEL.

Each rule keeps where it stands, in the words of who wrote it: `policies.yaml:14`. Whoever it refuses finds it there.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import yaml

from towpath_fabric.profiles.policy_profiles import profile_texts
from towpath_readings.yaml_lines import LineNumbers
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.policy_file import ParsedPolicy, read_policy
from towpath_tas.core.policy.profile_expansion import expand_profile

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LINE_OF_PROGRAM = re.compile(r".+\.py:\d+")
_FILE = re.compile(r".+\.(?:ya?ml|json)|profile \w+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class PolicyText:
    """The text with its profile written out, which is what is stored, and what was read in it."""

    text: str
    read: ParsedPolicy

    def line_of(self, pointer: str) -> int:
        """Return the line of a JSON pointer in a policy that was read, or of what is around it."""
        return self._lines.of(pointer)

    @cached_property
    def _lines(self) -> LineNumbers:
        """Few policies have anything to be told of, and a long one takes its time."""
        return LineNumbers(yaml.compose(self.text, Loader=_LOADER))


def read_policy_text(written: str, source: str = "") -> PolicyText:
    """Read *written*; its problems are told with its own lines. Its rules stand in *source*, where that is a file."""
    expanded = expand_profile(written, profile_texts())
    if expanded.problems:
        return PolicyText(text=written, read=ParsedPolicy(problems=expanded.problems))
    read = read_policy(expanded.text, compile_condition)
    places = expanded.places or tuple(("", line) for line in read.lines)
    if not read.problems and len(places) == len(read.rules):
        read.rules = tuple(
            replace(rule, at=_place(profile or source, line))
            for rule, (profile, line) in zip(read.rules, places, strict=True)
        )
    return PolicyText(text=expanded.text, read=read)


def _place(source: str, line: int) -> str:
    """Return where a rule stands; of a file that is named by its whole path only the name: the rest is a server's.

    A policy that was written in Python has one place, the line that declares it. Empty where *source* is neither.
    """
    if _LINE_OF_PROGRAM.fullmatch(source):
        return _shown(source)
    return f"{_shown(source)}:{line}" if _FILE.fullmatch(source) else ""


def _shown(source: str) -> str:
    name = "".join(char for char in source if char.isprintable())
    is_whole = "://" in name or PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute()
    return re.split(r"[\\/]", name)[-1] if is_whole else name
