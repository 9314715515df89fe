"""Scripts beside a network: which ones its models play, and what is wrong with one.

`scripted:NAME` plays NAME.json, which nothing publishes: a decider reads it when a run asks. So a file that can't be
played would first be noticed in a run, unless it is looked at here. An entry is played as it is, since a model may
write anything: what is odd in it is a doubt and no fault.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from towpath.networks.script_file import ScriptFile
from towpath_contracts.problems.json_syntax import describe_json_fault
from towpath_contracts.problems.near_names import MAX_NAMES, suggest_name, suggest_or_list

if TYPE_CHECKING:
    from towpath_contracts.base import JsonObject

TASK = "task"
"""`scripted:task` plays the script that comes with the task; any other name is a file."""

ENTRY_WORDS = frozenset(
    {
        *("agent", "delay_ms", "when"),
        *("action", "action_reasoning", "action_details", "uncertain", "request_confidence", "confidence"),
    }
)
"""Words of a decision in a script: for whom it is, how late and under which condition, and what a model answers.

They are written out, as ACTIONS are: every start of a command would pay for the import of the contracts.
"""

CONDITIONS = ("task", "last_call")
"""What the `when` of a decision looks at: a part of the task's text, and how the last call ended."""

LAST_CALL = ("succeeded", "failed")

DETAILS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ROUTE_TO_AGENT": (("target_agent_name",), ("context",)),
    "USE_TOOL": ((), ("tool_name", "tool_params", "calls")),
    "RESPOND": (("payload",), ()),
    "ABANDON": (("rationale",), ()),
    "REQUEST_GATE": (("reason",), ("detail",)),
}
"""What the details of each action must say, and what they may say beside it."""

ACTIONS = tuple(DETAILS)
"""What a decision may say to do."""

NO_LIST = (
    "a script is a list of decisions: put them in brackets, "
    '[{"action": "RESPOND", "action_details": {"payload": {"message": "done"}}}]'
)

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""As large as a decider reads."""

MAX_DOUBTS = 10
"""Entries that are told to be odd; a file of another kind has thousands."""

_SCRIPTED, _ENDING = "scripted:", ".json"
_NO_DIGITS = str.maketrans("", "", "0123456789")


def played_scripts(spec: "JsonObject") -> dict[str, list[str]]:
    """Return the names of the scripts that the models of the network *spec* play, each with the agents that do."""
    found: dict[str, list[str]] = {}
    for agent in spec.get("agents") or ():
        decides = agent if agent.get("model") is not None else spec
        for name in _script_names(decides):
            found.setdefault(name, []).append(str(agent.get("key")))
    return found


def _script_names(decides: "JsonObject") -> Iterator[str]:
    first = decides.get("model") or f"{_SCRIPTED}{TASK}"
    listed = first if isinstance(first, list | tuple) else (first, *(decides.get("fallback_models") or ()))
    return (str(model).removeprefix(_SCRIPTED) for model in listed if str(model).startswith(_SCRIPTED))


def script_path(folder: Path, name: str) -> Path:
    """Return the file that `scripted:name` plays; NAME.json, where none is there."""
    as_written = folder / name
    return as_written if as_written.is_file() else folder / f"{name}{_ENDING}"


def task_script_hint(network: str, agents: Sequence[str]) -> str:
    """Return what is said of *agents* that have no decisions but those that a task brings."""
    plays = "plays" if len(agents) == 1 else "play"
    return (
        f"{network}: {', '.join(agents)} {plays} the script of each task, and without one a run fails: "
        f'towpath run {network} "…" --script FILE, or name a model, such as model: gemini:gemini-2.5-flash'
    )


def read_script_file(path: Path, folder: Path, agents: Sequence[str] = ()) -> tuple[ScriptFile, list[str]]:
    """Return the script in *path*, or why it can't be played, with its line.

    It is read as a decider reads it, which plays nothing outside of its *folder*; *agents* play it.
    """
    nothing = ScriptFile(str(path))
    if not path.resolve().is_relative_to(folder.resolve()):
        return nothing, [f"{path} is outside of {folder}, and a decider plays only what is in its folder of scripts"]
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            return nothing, [f"{path}:1: the script is larger than {MAX_SCRIPT_BYTES} bytes"]
        data = path.read_bytes()
    except FileNotFoundError:
        return nothing, [_missing(path, folder, agents)]
    except OSError as error:
        return nothing, [f"{path} can't be read: {error.strerror}"]
    try:
        entries: Any = from_json(data)
    except ValueError as error:
        return nothing, [_syntax_fault(path, data, error)]
    if not isinstance(entries, list):
        return nothing, [f"{path}:1: {NO_LIST}"]
    return ScriptFile(str(path), entries, data.decode()), []


def _syntax_fault(path: Path, data: bytes, said: ValueError) -> str:
    """Return why *data* is no JSON in words that name the line; what only a decider's parser minds, as it *said* it."""
    try:
        json.loads(data.decode())
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return f"{path}:{line}: this is not UTF-8; save the file as UTF-8"
    except json.JSONDecodeError as error:
        line, fault = describe_json_fault(error)
        return f"{path}:{line}: not JSON: {fault}"
    except (ValueError, RecursionError):  # an integer with thousands of digits, or brackets without end
        pass
    return f"{path}: not JSON: {said}"


def _missing(path: Path, folder: Path, agents: Sequence[str]) -> str:
    name = path.relative_to(folder).as_posix().removesuffix(_ENDING)
    known = sorted(one.stem for one in islice(folder.glob(f"*{_ENDING}"), MAX_NAMES))
    hint = suggest_name(name, known, shown=lambda near: f"{_SCRIPTED}{near}")
    who = f"{', '.join(agents)} {'plays' if len(agents) == 1 else 'play'} {_SCRIPTED}{name}" if agents else "it"
    return f"{path} is not there, and {who}{hint}"


def script_doubts(script: ScriptFile, agents: Sequence[str] = ()) -> list[str]:
    """Return what is odd in the entries of *script*, which *agents* play; it is played as it is all the same."""
    entries = [(index, one) for index, one in enumerate(script.entries) if isinstance(one, Mapping)]
    named = {one["agent"] for _, one in entries if isinstance(one.get("agent"), str)}
    silent = sorted(set(agents) - named)
    odd = ((index, word) for index, entry in entries for word in _odd_in_entry(entry, agents, silent))
    found = [f"{script.place(index)}: {word}" for index, word in islice(odd, MAX_DOUBTS)]
    return [*found, f"{script.source}: more entries are odd"] if next(odd, None) else found


def _odd_in_entry(entry: Mapping[str, Any], agents: Sequence[str], silent: Sequence[str]) -> Iterator[str]:
    if "action" in entry or "action_details" in entry:
        yield from _odd_in_decision(entry)
    agent = entry.get("agent")
    if not isinstance(agent, str) or agent in agents:
        return
    # Numbered agents of another network, which plays this script too, are no slips of these.
    others = [one for one in agents if _without_digits(one) != _without_digits(agent)]
    if meant := suggest_name(agent, silent, shown=str) or suggest_name(agent, others, shown=str):
        yield f"no agent {agent} plays this script{meant}"


def _without_digits(name: str) -> str:
    return name.translate(_NO_DIGITS)


def _odd_in_decision(entry: Mapping[str, Any]) -> Iterator[str]:
    unknown = sorted(str(word) for word in set(entry) - ENTRY_WORDS)
    for word in unknown:
        yield f"no decision has {word}{suggest_or_list(word, sorted(ENTRY_WORDS), shown=str)}"
    if "when" in entry:
        yield from _odd_in_condition(entry["when"])
    if "action" not in entry and not unknown:
        yield f"action is missing: one of {', '.join(ACTIONS)}"
    action = entry.get("action")
    if not isinstance(action, str):
        return
    if action not in DETAILS:
        yield f"no action is called {action}{suggest_or_list(action, ACTIONS, shown=str)}"
    elif isinstance(details := entry.get("action_details"), Mapping):
        yield from _odd_in_details(action, details)
    elif not unknown:
        yield f"{action} has no action_details; they are an object with {_all_of(action)}"


def _odd_in_condition(when: object) -> Iterator[str]:
    if not isinstance(when, Mapping):
        yield f'when is an object, such as {{"{CONDITIONS[0]}": "8812"}}'
        return
    for word in sorted(str(one) for one in set(when) - {*CONDITIONS}):
        yield f"no when has {word}{suggest_or_list(word, CONDITIONS, shown=str)}"
    ended = when.get("last_call")
    if isinstance(ended, str) and ended not in LAST_CALL:
        yield f"no last_call is {ended}{suggest_or_list(ended, LAST_CALL, shown=str)}"


def _odd_in_details(action: str, details: Mapping[str, Any]) -> Iterator[str]:
    must, may = DETAILS[action]
    unknown = sorted(str(word) for word in set(details) - {*must, *may})
    for word in unknown:
        hint = suggest_or_list(word, (*must, *may), shown=str)
        yield f"the action_details of {action} have no {word}{hint}"
    if not unknown and (missing := [word for word in must if word not in details]):
        yield f"the action_details of {action} lack {', '.join(missing)}"


def _all_of(action: str) -> str:
    must, may = DETAILS[action]
    return ", ".join((*must, *may))
