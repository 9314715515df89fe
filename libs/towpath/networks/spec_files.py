"""Reads networks and policies from YAML files, and says in which line something is wrong.

A file is data: only plain YAML is read, a key may be given once, and every problem names `file:line`.
"""

import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from towpath.declared_places import checks_call
from towpath.errors import RefusedError
from towpath.missing_files import missing_file
from towpath.networks.ways_to_write import as_in_a_file
from towpath_contracts.base import JsonObject
from towpath_contracts.files.policy_document import TAKEN_BY, other_kind
from towpath_contracts.problems.given_values import in_words_of_a_file, value_at
from towpath_contracts.problems.input_faults import locate_fault, name_field, summary_of
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_readings.yaml_lines import LineNumbers, describe_yaml_fault

if TYPE_CHECKING:
    from towpath_contracts.networks.spec import NetworkSpec

MAX_FILE_BYTES = 2_000_000
"""The longest policy text the platform takes (ApplyPolicy.text); a network is far shorter."""

KEPT_CHARS = 32_768
"""The longest text of which the values are kept."""

_REMEDY = "Correct the file at the line that is named, and try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A permission matrix as written: the text that is applied, and where it came from."""

    text: str
    source: str


@checks_call
def load_network(path: str | Path) -> "NetworkSpec":
    """Read a network; raises RefusedError `network_invalid` with every problem and its `file:line`."""
    from towpath.networks.network import spec_from  # noqa: PLC0415 - few commands that read a file of YAML need agents

    written, lines, _ = read_yaml(Path(path), "network_invalid")
    refuse_other_kind("network_invalid", Path(path), written, lines, "Network")
    try:
        return spec_from(written)
    except RefusedError as error:
        raise RefusedError(_located_faults(Path(path), lines, error.problem.errors, written)) from None


def _located_faults(path: Path, lines: LineNumbers, errors: Iterable[ProblemDetail], written: JsonObject) -> Problem:
    told = [_agents_form(_first_agent(one, written), written) for one in in_words_of_a_file(errors, written)]
    return locate_problems("network_invalid", path, lines, [_with_meant(one, written) for one in told])


def _with_meant(fault: ProblemDetail, written: JsonObject) -> ProblemDetail:
    """Return *fault* with the value that was meant, where the file has another than the field takes, or no name."""
    if fault.pointer == "/name" and fault.code == "missing":
        return fault.model_copy(update={"detail": f"{fault.detail}, such as name: support"})
    given = value_at(fault.pointer, written)
    choices = re.findall(r"'([^']+)'", fault.detail) if fault.code == "literal_error" else []
    if not isinstance(given, str) or not choices:
        return fault
    return fault.model_copy(update={"detail": f"{fault.detail}{suggest_name(given, choices)}"})


def _first_agent(fault: ProblemDetail, written: JsonObject) -> ProblemDetail:
    """Return *fault* with where is said which agent begins, if that stands at the network; another fault as it is."""
    if fault.code != "extra_forbidden" or not fault.detail.endswith("as `is_default: true`"):
        return fault
    named = written.get(fault.pointer.removeprefix("/"))
    listed = written.get("agents")
    agents = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if [one.get("key") for one in agents if one.get("is_default") is True] == [named]:
        cure = f"take it out: {named} has `is_default: true` already"
    else:
        at = named if named in [one.get("key") for one in agents] else "the agent that begins"
        cure = f"take it out, and write `is_default: true` at {at}"
    return fault.model_copy(update={"detail": f"{fault.detail.partition(';')[0]}; {cure}"})


def _agents_form(fault: ProblemDetail, written: JsonObject) -> ProblemDetail:
    """Return *fault* with how agents that are written by key are written as a list; another fault as it is."""
    agents = written.get("agents")
    if fault.pointer != "/agents" or not isinstance(agents, dict) or not agents:
        return fault
    first = f"`- key: {next(iter(agents))}`"
    return fault.model_copy(
        update={"detail": f"agents is a list: begin each agent with a dash and its key: {first}, then its fields below"}
    )


def locate_refusal(path: str | Path, refused: RefusedError) -> RefusedError:
    """Return the platform's problem about a network that was read from *path*, with the line of every problem."""
    found = refused.problem
    if found.code != "network_invalid" or not found.errors:
        return refused
    written, lines, _text = read_yaml(Path(path), found.code)
    return RefusedError(_located_faults(Path(path), lines, found.errors, written))


def declared_twice(path: str | Path, name: str, owner: str | Path) -> RefusedError:
    """Return the refusal of the network *name* in *path*: the file *owner* has one of that name already."""
    detail = f"network {name} is declared by {Path(owner).name} already; give it another name"
    fault = ProblemDetail(pointer="/name", code="name_twice", detail=detail)
    _written, lines, _text = read_yaml(Path(path), "network_invalid")
    return RefusedError(locate_problems("network_invalid", Path(path), lines, [fault]))


@checks_call
def load_policy(path: str | Path) -> PolicyFile:
    """Read a permission matrix; raises RefusedError `policy_invalid` where it isn't one at all.

    Its rules are checked by the tool-access service, which knows them: `client.policy.check`.
    """
    written, lines, text = read_yaml(Path(path), "policy_invalid")
    refuse_other_kind("policy_invalid", Path(path), written, lines, "Policy")
    if not isinstance(written.get("rules", []), list):
        fault = ProblemDetail(pointer="/rules", code="rules", detail=_rules_form(written["rules"]))
        raise RefusedError(locate_problems("policy_invalid", Path(path), lines, [fault]))
    return PolicyFile(text=text, source=str(path))


def _rules_form(rules: Any) -> str:
    """Return how *rules*, which are no list, are written as one."""
    if not isinstance(rules, dict) or not rules:
        return "rules is a list: begin each rule with a dash"
    first = f"`- name: {next(iter(rules))}`"
    return f"rules is a list: begin each rule with a dash and its name: {first}, then its fields below"


def locate_policy_refusal(policy: PolicyFile, found: Problem) -> Problem:
    """Return the problem *found* of *policy* with `file:line` before every fault; one of another kind as it is."""
    if found.code != "policy_invalid" or not found.errors or not policy.source:
        return found
    placed = tuple(
        one.model_copy(update={"detail": locate_fault(policy.source, one.detail, one.pointer)}) for one in found.errors
    )
    return _placed_problem(found.code, placed)


def refuse_other_kind(code: str, path: Path, written: JsonObject, lines: LineNumbers, kind: str) -> None:
    """Raise RefusedError with *code* where the file says that it is something else than a *kind*."""
    found = str(written.get("kind", kind))
    if found == kind:
        return
    if found in TAKEN_BY:
        detail = other_kind(found, kind, str(path))
        remedy = f"Run the one that you want, or name a file that is a {kind}."
    else:
        detail = f"the kind {found!r} is not known; did you mean {kind!r}?"
        remedy = _REMEDY
    fault = ProblemDetail(pointer="/kind", code="kind", detail=detail)
    raise RefusedError(locate_problems(code, path, lines, [fault]).model_copy(update={"remedy": remedy}))


def read_yaml(path: Path, code: str) -> tuple[JsonObject, LineNumbers, str]:
    """Parse *path*; raises RefusedError: `file_missing` where nothing is there, else *code*."""
    text = _read_text(path, code)
    try:
        written, lines = _values_of_its_own(text) if len(text) <= KEPT_CHARS else _values_and_lines(text)
    except yaml.YAMLError as error:
        line, message = describe_yaml_fault(error, text)
        raise _refused(code, path, line, f"not YAML: {message}") from error
    if lines.duplicates:
        twice = [ProblemDetail(pointer=at, code="key_twice", detail=_given_twice(at, lines)) for at in lines.duplicates]
        raise RefusedError(locate_problems(code, path, lines, twice))
    if written is None:
        raise _refused(code, path, 1, "the file is empty; it begins with a key, such as `kind: Network`")
    if not isinstance(written, dict):
        raise _refused(code, path, 1, "the file has to begin with a key, such as `kind: Network`")
    return written, lines, text


def _values_and_lines(text: str) -> tuple[Any, LineNumbers]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    lines = LineNumbers(root)  # first: what makes the values resolves `<<` in the nodes themselves
    return None if root is None else yaml.SafeLoader("").construct_document(root), lines


_kept = lru_cache(maxsize=16)(_values_and_lines)
"""A harness for each test of a project reads the same few files, which takes longer than what most tests do."""


def _values_of_its_own(text: str) -> tuple[Any, LineNumbers]:
    """Return a copy of what *text* holds, which was read once; a text that is refused is read and refused anew."""
    values, lines = _kept(text)
    return deepcopy(values), lines


def _given_twice(at: str, lines: LineNumbers) -> str:
    name, first, second = at.rpartition("/")[2], lines.first_of(at), lines.of(at)
    where = f"in line {first}" if first == second else f"in lines {first} and {second}"
    return f"{name!r} is given twice, {where}; keep one"


def _read_text(path: Path, code: str) -> str:
    try:
        if path.is_dir():
            raise RefusedError(problem("file_missing", f"{path} is a folder: name a file in it{_file_in(path)}"))
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _refused(code, path, 1, f"the file is larger than {MAX_FILE_BYTES} bytes")
        content = path.read_bytes()
        return content.decode("utf-8")
    except FileNotFoundError as error:
        raise RefusedError(problem("file_missing", missing_file(path))) from error
    except OSError as error:
        raise RefusedError(problem("file_missing", f"{path} can't be read: {error.strerror}")) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise _refused(code, path, line, "this is not UTF-8; save the file as UTF-8") from error


def _file_in(folder: Path) -> str:
    """Return the one YAML file that lies in *folder*, as an example of what to name; nothing where there are others."""
    found = list(islice(folder.glob("*.y*ml"), 2))
    return f", such as {folder}/{found[0].name}" if len(found) == 1 else ""


def _refused(code: str, path: Path, line: int, detail: str) -> RefusedError:
    return RefusedError(problem(code, f"{path}:{line}: {detail}", remedy=_REMEDY))


def locate_problems(code: str, path: Path, lines: LineNumbers, details: Iterable[ProblemDetail]) -> Problem:
    """Return the problem with `file:line` before every detail."""
    placed = [_with_line(lines, one) for one in details]
    told = (
        one.model_copy(update={"detail": f"{path}:{line}: {said}"})
        for line, said, one in sorted(placed, key=lambda at: at[0])
    )
    return _placed_problem(code, tuple(told))


def _with_line(lines: LineNumbers, one: ProblemDetail) -> tuple[int, str, ProblemDetail]:
    """Return *one* with its line, and what is said of it there."""
    if (found := lines.of_prompt(one.pointer, one.detail)) is not None:
        return *found, one
    return lines.of(one.pointer), name_field(as_in_a_file(one.detail), one.pointer, one.code), one


def _placed_problem(code: str, placed: tuple[ProblemDetail, ...]) -> Problem:
    return problem(code, summary_of(placed), errors=placed, remedy=_REMEDY)
