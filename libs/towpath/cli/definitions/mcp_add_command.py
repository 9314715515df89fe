"""`towpath mcp add`: one more MCP server in the file of a project.

The server is asked for its tools first, by the worker's own code: one that does not answer is not written down.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.child_process import run_module
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath.cli.shared.text import plain_json, plain_yaml
from towpath.process_arguments import WorkerArguments
from towpath.project.project_file import PROJECT_FILE, find_project
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.project.project_file import ProjectFile

Words = Annotated[str, Parameter(allow_leading_hyphen=True)]
Pairs = Annotated[tuple[str, ...], Parameter(negative="")]

SERVERS_FILE = Path("servers.yaml")
"""Where servers are written down in a project that names no file of them."""

MEND = (
    "Mend what it says, and add it again: --env and --header give a server what it needs, -- stands before its command."
)
_SIGNS = re.compile(r"[*?\[]")
_VARIABLE = re.compile(r"[^\s:=]+")


def add_to(app: App) -> None:
    """Make this command part of `towpath mcp`."""
    app.command(
        add,
        help_epilogue=examples(
            "towpath mcp add time uvx mcp-server-time",
            "towpath mcp add github --env GITHUB_TOKEN -- npx -y @example/github-server",
            "towpath mcp add sheets https://sheets.example.com/mcp --header 'Authorization=Bearer ${env:SHEETS_TOKEN}'",
        ),
    )


async def add(
    name: str,
    /,
    *command: Words,
    env: Pairs = (),
    header: Pairs = (),
    file: Path | None = None,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Add an MCP server to the file of them: it is asked for its tools, and written down where it answers.

    What is shown of each tool are the rules of this project's policy that name it: without one its calls are denied.

    Args:
        name: The server's name, with which the names of its tools begin.
        command: The program that is started, with its arguments; or the URL where the server answers.
        env: NAME=VALUE for the program; NAME alone is what the worker's environment has then, and stands in no file.
        header: NAME=VALUE that is sent to the URL.
        file: The file of servers; else that of towpath.yaml, or servers.yaml.
    """
    from towpath.project.yaml_insertion import with_key

    project = find_project()
    place = file or (project.mcp if project and project.mcp else SERVERS_FILE)
    entry = server_entry(command, env, header)
    names_it = file is None and project is not None and project.mcp is None
    is_there = names_it and _has(place, name, entry)
    _check(name, entry, place, is_there=is_there)
    out = printed.out()
    with out.progress(f"Asking {name} for its tools"):
        found = await _inspected(name, entry, place.absolute().parent)
    if not found["connected"]:
        detail = f"{name} does not answer, so {place} stays as it is: {found['state']}"
        raise ProblemError(problem("service_failed", detail, remedy=MEND))
    rules = _rules(project)
    texts = {} if is_there else {place: _with_server(name, entry, place)}
    if names_it:
        texts[PROJECT_FILE] = with_key(PROJECT_FILE, f"mcp: {plain_json(str(place))}")
    for path, text in texts.items():
        path.write_bytes(text.encode("utf-8"))
    tools = [
        {key: one[key] for key in ("tool", "effect_class", "description", "notes")}
        | {"rules": rules_that_name(one["tool"], name, rules)}
        for one in found["tools"]
    ]
    following = next_steps(name, tools, place, is_served=file is None and project is not None)
    written = list(map(str, texts))
    if not out.for_people:
        out.data({"server": name, "written": written, "tools": tools, "refused": found["refused"], "next": following})
        return
    out.write(f"wrote {', '.join(written)}")
    columns = (
        Column("tool", "tool"),
        Column("effect", "effect_class"),
        Column(
            "rules", lambda row: ", ".join(f"{one['name']} ({one['effect']})" for one in row["rules"]) or "none: denied"
        ),
        Column("notes", lambda row: "; ".join(row["notes"]), is_whole=True),
    )
    out.rows("tools", tools, columns, empty=f"{name} offers no tool.")
    for tool, reason in found["refused"].items():
        out.write(f"{tool} is not offered: {reason}", "yellow")
    for line in following:
        out.write(f"next: {line}")


def server_entry(command: Sequence[str], env: Sequence[str], header: Sequence[str]) -> dict[str, Any]:
    """Return what the file says of a server; ProblemError where neither a command nor a URL is there."""
    if not command:
        remedy = "Write e.g. towpath mcp add time uvx mcp-server-time, or towpath mcp add sheets https://HOST/mcp."
        raise ProblemError(problem("request_invalid", "a server needs its command, or its URL", remedy=remedy))
    if command[0].startswith(("http://", "https://")):
        if command[1:] or env:
            # Nothing of them is repeated: a header that stands in the wrong place may be a secret.
            detail = "a server at a URL takes neither more words nor --env"
            remedy = "What it is to know is sent by --header 'NAME=VALUE', in quotes where it has spaces."
            raise ProblemError(problem("request_invalid", detail, remedy=remedy))
        headers = _headers(header)
        return {"url": command[0], **({"headers": headers} if headers else {})}
    if header:
        remedy = "A program is told by --env NAME=VALUE."
        raise ProblemError(problem("request_invalid", "--header belongs to a URL, not to a program", remedy=remedy))
    variables = _variables(env)
    return {
        "command": command[0],
        **({"args": list(command[1:])} if command[1:] else {}),
        **({"env": variables} if variables else {}),
    }


def _variables(written: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE, each; of NAME alone what the worker's environment has."""
    found: dict[str, str] = {}
    for one in written:
        name, sign, value = one.partition("=")
        if not _VARIABLE.fullmatch(name):
            # Nothing is repeated of what is no name: it may be a secret.
            raise ProblemError(problem("request_invalid", "--env takes NAME=VALUE, or NAME alone"))
        found[name] = value if sign else f"${{env:{name}}}"
    return found


def _headers(written: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE, each; `Name: value`, as curl takes headers, is read too."""
    found: dict[str, str] = {}
    for one in written:
        name, sign, value = re.match(r"([^=:]*)(=|: ?|)(.*)", one, re.DOTALL).groups()  # type: ignore[union-attr]
        if not (name and sign):
            # Nor is this repeated: a token without the name of its header is one.
            raise ProblemError(problem("request_invalid", "--header takes NAME=VALUE, or 'NAME: VALUE'"))
        found[name.strip()] = value
    return found


def _has(place: Path, name: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an earlier try has written this very server into *place*, and could not name that file then."""
    from towpath.networks.spec_files import read_yaml
    from towpath.project.mcp_servers import CODE

    servers = read_yaml(place, CODE)[0].get("servers") if place.exists() else None
    return isinstance(servers, dict) and servers.get(name) == entry


def _check(name: str, entry: Mapping[str, Any], place: Path, *, is_there: bool) -> None:
    """Raise ProblemError where the server can't be written, or its name is taken by another one."""
    from pydantic import ValidationError

    from towpath.project.mcp_servers import ServersFile, load_servers
    from towpath_contracts.problems.input_faults import details_of, in_plain_words

    try:
        ServersFile.model_validate({"servers": {name: entry}})
    except ValidationError as error:
        errors = in_plain_words(details_of(error, ServersFile))
        raise ProblemError(problem("request_invalid", "; ".join(one.detail for one in errors), errors=errors)) from None
    if is_there or not place.exists():
        return
    for other, server in load_servers(place).servers.items():
        if name in {other, server.toolset}:
            detail = f"{place} has {name!r} already, as {'server' if name == other else f'toolset of {other}'}"
            raise ProblemError(problem("files_exist", detail, remedy="Choose another name, or change it in the file."))


async def _inspected(name: str, entry: Mapping[str, Any], folder: Path) -> Any:
    """Return what the server says when it is started from *folder*, where the paths of the file begin."""
    with _file_of_one(name, entry, folder) as file:
        _, servers = await run_module("towpath_worker", *WorkerArguments(mcp=file, inspect=True).words())
    return servers[0]


@contextlib.contextmanager
def _file_of_one(name: str, entry: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".towpath-mcp-", suffix=".yaml") as file:
        file.write(plain_json({"servers": {name: entry}}))
        file.flush()
        yield Path(file.name)


def _with_server(name: str, entry: Mapping[str, Any], place: Path) -> str:
    """Return the text of *place* with one more server."""
    from towpath.project.scaffold import modeline
    from towpath.project.yaml_insertion import indented, with_entry

    text = plain_yaml({name: dict(entry)})
    if place.exists():
        return with_entry(place, "servers", name, text)
    first = "" if place.is_absolute() else modeline("mcp-servers", place)
    return f"{first}kind: McpServers\nservers:\n{indented(text, 2)}"


def _rules(project: "ProjectFile | None") -> list[dict[str, Any]]:
    """Return the rules of the project's policy; none where there is no policy, or it can't be read."""
    from towpath.project.yaml_insertion import parse_yaml

    if project is None or project.policy is None:
        return []
    try:
        written = parse_yaml(project.policy.read_text("utf-8"), project.policy, quiet=True)
    except (OSError, UnicodeDecodeError):
        return []
    rules = written.get("rules") if isinstance(written, dict) else None
    return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []


def rules_that_name(tool: str, server: str, rules: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the *rules* that name *tool* of *server*: exactly, or its toolset with `discovered: true`.

    No other rule opens a discovered tool.
    """
    from fnmatch import fnmatchcase

    found = []
    for rule in rules:
        named = str(rule.get("tool", "*"))
        of_toolset = rule.get("discovered") is True and named.startswith(f"{server}.") and fnmatchcase(tool, named)
        if named == tool or (_SIGNS.search(named) and of_toolset):
            found.append({"name": str(rule.get("name")), "effect": str(rule.get("effect"))})
    return found


def next_steps(name: str, tools: Sequence[Mapping[str, Any]], place: Path, *, is_served: bool) -> list[str]:
    """Return what is left to do for an agent to call the *tools* of the server."""
    steps = []
    closed = [tool for tool in tools if not any(rule["effect"] != "deny" for rule in tool["rules"])]
    if closed:
        tool = closed[0]["tool"]
        steps.append(f"towpath new policy NAME --tool {tool} --effect require_approval --who network=NETWORK")
    if tools:
        steps.append(f"let an agent have it: equipped_tools: [{tools[0]['tool']}]")
    up = "towpath up" if is_served else f"towpath up --mcp {place}"
    steps.append(
        f"{up}; one that runs with this file serves {name} by itself, a towpath worker has to be started again"
    )
    return steps
