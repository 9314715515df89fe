"""Other arguments for a call that waits, written by the person at the terminal.

The platform judges them as it judges every edit. Here they are only read, compared and shown, so that nobody sends what
they have not seen. What the task sets is shown beside them and goes back as it came: an edit may not change it.
"""

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from towpath.cli.shared.confirmation import prompt
from towpath.cli.shared.input_files import parse_json, read_text
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.text import one_line, plain_json, shorten
from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import Problem, ProblemError, problem

VALUE_WIDTH = 200
"""Of one value in the difference; longer ones are cut."""

_HOW = "    other values, as field=value …, or all arguments as JSON (empty: none): "


async def edited_arguments(client: Client, detail: Mapping[str, Any], out: OutputPrinter) -> JsonObject | None:
    """Have the person at the terminal write other arguments for the call of a gate, and show what differs.

    Returns None where nothing differs. Raises ProblemError where what was written can't be read.
    """
    asked = dict(detail.get("args") or {})
    schema, owned = await _declared(client, str(detail.get("tool", "")))
    fixed = {name: value for name, value in asked.items() if name in owned}
    free = {name: value for name, value in asked.items() if name not in owned}
    if fixed:
        out.write(f"    the task sets, and nobody else: {shorten(fixed, VALUE_WIDTH)}", "dim")
    command = _editor()
    # in a thread: what is watched beside it goes on while a person writes
    written = (
        await asyncio.to_thread(_from_editor, command, free) if command else _from_line(prompt(_HOW), free, schema)
    )
    args = {**fixed, **written}
    changes = differences(asked, args)
    for line in changes:
        out.write(f"    {line}", "yellow")
    if not changes:
        out.write("    nothing was changed", "dim")
    return args if changes else None


async def merged_arguments(client: Client, detail: Mapping[str, Any], pairs: Sequence[str]) -> JsonObject:
    """Return the arguments of the call of a gate with `field=value` *pairs* in their place; raises ProblemError."""
    asked = dict(detail.get("args") or {})
    schema, _owned = await _declared(client, str(detail.get("tool", "")))
    return _with_pairs(pairs, asked, schema)


async def _declared(client: Client, tool: str) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the schema of a tool's arguments, and the names of those that the task sets.

    Whoever may decide here need not be allowed to read the tools; then the platform alone says what is not theirs.
    """
    try:
        found = (await client.request("GET", "/v1/tools", query={"name": tool}))["tools"]
    except TowpathError:
        found = []
    spec = found[0] if found else {}
    return spec.get("parameters") or {}, frozenset(spec.get("system_params") or ())


def _editor() -> list[str]:
    """Return the command of the person's editor, nothing where they named none."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")  # noqa: TID251 - the person's, no setting of ours
    return shlex.split(named or "")


def _from_editor(command: list[str], args: JsonObject) -> JsonObject:
    """Return what *args* are once they were written to a file, edited and saved."""
    with tempfile.TemporaryDirectory(prefix="towpath-edit-") as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(plain_json(args, indent=2) + "\n", "utf-8")
        try:
            ended = subprocess.run([*command, path], check=False).returncode
        except OSError as error:
            said = f"the editor {command[0]} can't be started: {error.strerror}"
            raise ProblemError(problem("request_invalid", said, remedy="Name another one in EDITOR.")) from error
        if ended:
            said = f"the editor {command[0]} ended with {ended}, so nothing was read"
            raise ProblemError(problem("request_invalid", said, remedy="Save the file, and leave the editor as usual."))
        return _object(parse_json(read_text(path), "the arguments"))


def _from_line(line: str, args: JsonObject, schema: Mapping[str, Any]) -> JsonObject:
    """Return what *args* are with the pairs of *line*, or the JSON object that it is."""
    if line.strip().startswith("{"):
        return _object(parse_json(line, "the arguments"))
    try:
        pairs = shlex.split(line)
    except ValueError as error:
        raise _unreadable(f"{str(error)[0].lower()}{str(error)[1:]}") from error
    return _with_pairs(pairs, args, schema)


def _with_pairs(pairs: Sequence[str], args: JsonObject, schema: Mapping[str, Any]) -> JsonObject:
    """Return *args* with what the *pairs* say; raises ProblemError for one that is no `field=value`."""
    if odd := next((pair for pair in pairs if "=" not in pair), None):
        raise _unreadable(f"{odd} is no field=value")
    named = dict(pair.split("=", 1) for pair in pairs)
    return {**args, **{name: _value(text, args.get(name), _type(schema, name)) for name, text in named.items()}}


def _value(text: str, before: Any, declared: Any) -> Any:
    """Return what *text* means: itself where the argument is a text, else what it is as JSON."""
    if declared == "string" or (declared is None and isinstance(before, str)):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text  # the schema says what is wrong with it


def _type(schema: Mapping[str, Any], name: str) -> Any:
    field = schema.get("properties", {}).get(name)
    return field.get("type") if isinstance(field, dict) else None


def _object(found: Any) -> JsonObject:
    if not isinstance(found, dict):
        raise _unreadable("they are no JSON object")
    return found


def _unreadable(why: str) -> ProblemError:
    remedy = "Write amount=60 note='half of it', or the JSON object of all arguments."
    return ProblemError(problem("request_invalid", f"the arguments can't be read: {why}", remedy=remedy))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Say in a line each which arguments differ, and how."""
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{one_line(name)}: {_shown(before, name)} → {_shown(after, name)}"
        for name in names
        if _shown(before, name, limit=0) != _shown(after, name, limit=0)
    ]


def _shown(args: Mapping[str, Any], name: str, limit: int = VALUE_WIDTH) -> str:
    return one_line(plain_json(args[name]), limit) if name in args else "(not given)"


def fault_lines(refused: Problem) -> list[str]:
    """Return what is wrong with each argument, where a refusal names them."""
    return [one_line(f"{fault.pointer.removeprefix('/args/')}: {fault.detail}") for fault in refused.errors]
