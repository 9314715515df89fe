"""Reads networks and policies from YAML files, and says in which line something is wrong.

A file is data: only plain YAML is read, a key may be given once, and every problem names `file:line`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from towpath.errors import RefusedError
from towpath.networks.network import spec_from
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_readings.yaml_lines import LineNumbers

MAX_FILE_BYTES = 2_000_000
"""The longest policy text the platform takes (ApplyPolicy.text); a network is far shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A permission matrix as written: the text that is applied, and where it came from."""

    text: str
    source: str


def load_network(path: str | Path) -> NetworkSpec:
    """Read a network; raises RefusedError `network_invalid` with every problem and its `file:line`."""
    written, lines, _ = read_yaml(Path(path), "network_invalid")
    try:
        return spec_from(written)
    except RefusedError as error:
        raise RefusedError(locate_problems("network_invalid", Path(path), lines, error.problem.errors)) from error


def locate_refusal(path: str | Path, refused: RefusedError) -> RefusedError:
    """Return the platform's problem about a network that was read from *path*, with the line of every problem."""
    found = refused.problem
    if found.code != "network_invalid" or not found.errors:
        return refused
    _written, lines, _text = read_yaml(Path(path), found.code)
    return RefusedError(locate_problems(found.code, Path(path), lines, found.errors))


def load_policy(path: str | Path) -> PolicyFile:
    """Read a permission matrix; raises RefusedError `policy_invalid` where it isn't one at all.

    Its rules are checked by the tool-access service, which knows them: `client.policy.check`.
    """
    written, lines, text = read_yaml(Path(path), "policy_invalid")
    faults = []
    if written.get("kind", "Policy") != "Policy":
        faults.append(ProblemDetail(pointer="/kind", code="kind", detail="a policy has kind: Policy"))
    if not isinstance(written.get("rules", []), list):
        faults.append(ProblemDetail(pointer="/rules", code="rules", detail="rules is a list"))
    if faults:
        raise RefusedError(locate_problems("policy_invalid", Path(path), lines, faults))
    return PolicyFile(text=text, source=str(path))


def read_yaml(path: Path, code: str) -> tuple[JsonObject, LineNumbers, str]:
    """Parse *path*; every way in which it can't be read is a RefusedError with *code*."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _refused(code, path, 1, f"the file is larger than {MAX_FILE_BYTES} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(code, path, 1, f"can't be read: {error}") from error
    try:
        lines = LineNumbers(yaml.compose(text, Loader=yaml.SafeLoader))
        written: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or str(error)
        raise _refused(code, path, mark.line + 1 if mark else 1, f"not YAML: {message}") from error
    if lines.duplicates:
        twice = [ProblemDetail(pointer=at, code="key_twice", detail="given twice") for at in lines.duplicates]
        raise RefusedError(locate_problems(code, path, lines, twice))
    if not isinstance(written, dict):
        raise _refused(code, path, 1, "the document is not a mapping")
    return written, lines, text


def _refused(code: str, path: Path, line: int, detail: str) -> RefusedError:
    return RefusedError(problem(code, f"{path}:{line}: {detail}"))


def locate_problems(code: str, path: Path, lines: LineNumbers, details: Iterable[ProblemDetail]) -> Problem:
    """Return the problem with `file:line` before every detail."""
    placed = tuple(
        one.model_copy(update={"detail": f"{path}:{lines.of(one.pointer)}: {one.detail}"}) for one in details
    )
    return problem(code, "; ".join(f"{one.detail} ({one.pointer})" for one in placed), errors=placed)
