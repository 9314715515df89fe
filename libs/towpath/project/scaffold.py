"""Writes a new project, and new parts of one: `towpath init`, `towpath new`.

Everything is made before anything is written, and nothing that lies there is written over: where one file is in the
way, all that are get listed, and the folder stays as it is.
"""

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any

from towpath.project.file_schemas import file_schema, schema_kinds
from towpath.project.network_files import find_network, network_place
from towpath.project.network_texts import PLACEHOLDER, TASK, identifier, rule_name, script_text, test_text, yaml_name
from towpath.project.project_file import PROJECT_FILE, ProjectFile
from towpath.project.yaml_insertion import append_item, append_items, indented, parse_yaml
from towpath_contracts.base import JsonObject
from towpath_contracts.files.policy_document import NAME_GLOB, RuleCallers, RuleEffect
from towpath_contracts.problems.near_names import name_like, nearest_name
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem

SCHEMAS = Path(".towpath") / "schema"
PRIVATE = 0o700
"""Rights of `.towpath`: what a platform keeps there later is its user's alone."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}")

_PROJECT = {
    "towpath.yaml": ("towpath.yaml", "project"),
    "networks/support.yaml": ("support.yaml", "network"),
    "networks/support.json": ("support.json", ""),
    "tools/orders.py": ("orders.py", ""),
    "policies.yaml": ("policies.yaml", "policy"),
    "tests/test_support.py": ("test_support.py", ""),
    "tests/verdicts.yaml": ("verdicts.yaml", "policy-test"),
    "tests/evaluation.yaml": ("evaluation.yaml", "evaluation"),
    "pytest.ini": ("pytest.ini", ""),
    "AGENTS.md": ("AGENTS.md", ""),
    "skills/towpath/SKILL.md": ("SKILL.md", ""),
    ".gitignore": ("gitignore", ""),
}
"""Files of a new project: the template of each, and of YAML files the kind."""

_OF_EVERY_PROJECT = ("towpath.yaml", "pytest.ini", "AGENTS.md", "skills/towpath/SKILL.md", ".gitignore")
_KEPT = (Path("networks") / ".gitkeep", Path("tools") / ".gitkeep")
"""What keeps the empty folders that `towpath.yaml` names when a project goes into git."""


@dataclass(frozen=True, slots=True)
class AddedPart:
    """What `towpath new` did: files that it wrote or added to, and what is left to do by hand."""

    paths: tuple[Path, ...]
    next_step: str


def modeline(kind: str, path: Path) -> str:
    """Return the first line of a YAML file at *path* in a project, which tells editors the schema of its *kind*."""
    up = "../" * (len(path.parts) - 1)
    return f"# yaml-language-server: $schema={up}{SCHEMAS.as_posix()}/{kind}.json\n"


def schema_files() -> dict[Path, str]:
    """Return the schemas of all kinds of files, by their places in a project."""
    return {SCHEMAS / f"{kind}.json": json.dumps(file_schema(kind), indent=2) + "\n" for kind in schema_kinds()}


def write_schemas(folder: Path) -> list[Path]:
    """Write the schemas of this version into the project in *folder*, over those that lie there; return their paths."""
    texts = schema_files()
    _write(folder, texts)
    return list(texts)


def create_project(folder: Path, *, empty: bool = False) -> list[Path]:
    """Write a project into *folder*, *empty* or with the help desk; return what was written.

    Raises ProblemError `files_exist`, and writes nothing, where a file is in the way.
    """
    names = _OF_EVERY_PROJECT if empty else _PROJECT
    texts = {Path(name): _text(*_PROJECT[name], Path(name)) for name in names}
    if empty:
        rules = Path("policies.yaml")
        texts |= {rules: _text("policy.yaml", "policy", rules).rstrip() + " []\n", **dict.fromkeys(_KEPT, "")}
    schemas = schema_files()
    _refuse_existing(folder, texts, schemas)
    texts |= schemas
    _write(folder, texts)
    return list(texts)


def add_network(
    folder: Path,
    project: ProjectFile,
    name: str,
    *,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    arguments: Mapping[str, JsonObject] = MappingProxyType({}),
) -> AddedPart:
    """Write a network of one agent, and a script with which it runs without a key.

    With tools, those to *allow* and those about which to *ask* a person, its agent has them, the script calls each
    with its *arguments*, the policy gets a rule for each, and a test plays all of it.
    """
    for one in (name, *allow, *ask):
        _check_name(one)
    place = network_place(project)
    if (folder / place).is_file():
        raise ProblemError(problem("request_invalid", f"networks of {PROJECT_FILE} is a file; make it a folder"))
    if both := [tool for tool in allow if tool in ask]:
        detail = f"{', '.join(both)} is to be allowed and asked about: name it once"
        raise ProblemError(problem("request_invalid", detail))
    path, script = place / f"{name}.yaml", place / f"{name}.json"
    tools = dict.fromkeys((*allow, *ask))
    equipped = f"    equipped_tools: [{', '.join(map(yaml_name, tools))}]\n" if tools else ""
    texts = {path: _text("network.yaml", "network", path, name=name, named=yaml_name(name), equipped=equipped)}
    if not tools:
        texts[script] = _text("network.json", name=name)
        _refuse_existing(folder, texts)
        _write(folder, texts)
        return AddedPart((path, script), f'towpath run {name} "Hello" --watch')
    calls = {tool: arguments.get(tool, PLACEHOLDER) for tool in tools}
    test = Path("tests") / f"test_{identifier(name)}.py"
    texts |= {script: script_text(calls), test: test_text(name, script, list(calls), ask)}
    _refuse_existing(folder, texts)
    who = [f"network={name}"]
    effects: dict[str, RuleEffect] = {tool: "require_approval" if tool in ask else "allow" for tool in tools}
    rules = {rule_name(name, tool): _rule(rule_name(name, tool), tool, effects[tool], who) for tool in tools}
    policy = _add_rules(folder, project, rules)
    _write(folder, texts)
    near = {tool: nearest_name(tool, arguments) for tool in tools if tool not in arguments}
    missing = [f"{tool} (did you mean {meant}?)" if meant else tool for tool, meant in near.items()]
    steps = [f'towpath test; and while towpath up runs: towpath run {name} "{TASK}" --watch']
    if chosen := [
        f"{tool} {json.dumps(given, ensure_ascii=False)}"
        for tool, given in arguments.items()
        if tool in tools and given
    ]:
        steps.insert(0, f"look at the example arguments in {script}: {', '.join(chosen)}")
    if missing:
        first = f"no file of tools has {', '.join(missing)}"
        steps.insert(0, f"{first}: put its arguments in place of ARGUMENT and VALUE in {script}")
    if project.policy is None:
        steps.insert(0, f"name the policy in {PROJECT_FILE}: policy: {policy}")
    return AddedPart((*texts, policy), "; then ".join(steps))


def add_tool(folder: Path, project: ProjectFile, name: str) -> AddedPart:
    """Write a tool into a file of its own, in the first folder of tools."""
    _check_name(name)
    function = identifier(name)
    if keyword.iskeyword(function):
        function += "_"
    place = next((tools for tools in project.tools if (folder / tools).is_dir()), Path("tools"))
    path = place / f"{function}.py"
    texts = {path: _text("tool.py", name=name, function=function)}
    _refuse_existing(folder, texts)
    _write(folder, texts)
    allow = f"towpath new policy NAME --tool {name} --effect allow"
    return AddedPart((path,), f"let an agent have it (equipped_tools: [{name}]), and allow it: {allow}")


def add_agent(folder: Path, project: ProjectFile, name: str, network: str = "") -> AddedPart:
    """Add an agent at the end of a network's file; without *network* to the only one that there is."""
    _check_name(name)
    remedy = "Name it with --network, or make one: towpath new network NAME."
    path = find_network(folder, project, network, remedy).relative_to(folder)
    append_item(folder, path, "agents", "key", name, _text("agent.yaml", name=name))
    return AddedPart((path,), _route_to(name, parse_yaml((folder / path).read_text("utf-8"), path), path))


def _route_to(name: str, network: Any, path: Path) -> str:
    """Return what is to be written in *path* so that an agent hands over to *name*: at the first one, for example."""
    first = next((one for one in network["agents"] if one.get("key") != name), None)
    if first is None:
        return f"in {path}, write is_default: true at it, since it is the only agent"
    routes = ", ".join([*(first.get("allowed_routes") or ()), name])
    return f"in {path}, let another agent hand over to it, such as {first.get('key')}: allowed_routes: [{routes}]"


def add_rule(
    folder: Path,
    project: ProjectFile,
    name: str,
    tool: str = "*",
    *,
    effect: RuleEffect = "require_approval",
    who: Sequence[str] = (),
) -> AddedPart:
    """Add a rule about *tool* at the end of the policy, which is made where there is none.

    *who* are pairs such as network=shop: whose calls it is about.
    """
    _check_name(name)
    path = _add_rules(folder, project, {name: _rule(name, tool, effect, who)})
    named = project.policy is not None
    condition = "such as when: args.amount <= 100"
    todo = (
        f"where it is not about every call, add a condition in {path}, {condition}"
        if who
        else f"add in {path} whose calls it is about, such as who: {{network: NAME}}, and a condition, {condition}"
    )
    return AddedPart((path,), todo if named else f"{todo}; and name the file in {PROJECT_FILE}: policy: {path}")


def _rule(name: str, tool: str, effect: RuleEffect, who: Sequence[str]) -> str:
    callers = f"  who: {{{', '.join(map(_caller, who))}}}\n" if who else ""
    return _text("rule.yaml", name=name, tool=json.dumps(tool), effect=effect, callers=callers)


def _add_rules(folder: Path, project: ProjectFile, rules: Mapping[str, str]) -> Path:
    """Add *rules*, by their names, at the end of the policy, which is made where there is none; return its path."""
    path = project.policy or Path("policies.yaml")
    if (folder / path).exists():
        append_items(folder, path, "rules", "name", rules)
    else:
        _write(folder, {path: _text("policy.yaml", "policy", path) + indented("".join(rules.values()), 2)})
    return path


def _caller(pair: str) -> str:
    """Return a pair of `--who` as YAML."""
    keys = tuple(RuleCallers.model_fields)
    key, _, value = pair.partition("=")
    if key not in keys or not re.fullmatch(NAME_GLOB, value):
        detail = f"--who takes KEY=NAME, with one of the keys {', '.join(keys)}, and not {pair!r}"
        raise ProblemError(problem("request_invalid", detail, remedy="Write e.g. --who network=support."))
    return f"{key}: {json.dumps(value)}"


def _text(template: str, kind: str = "", path: Path = Path(), **names: str) -> str:
    text = files("towpath.project").joinpath("templates", f"{template}.template").read_text("utf-8")
    return (modeline(kind, path) if kind else "") + (Template(text).substitute(names) if names else text)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        near = name_like(name.lstrip("0123456789"), "_.-")[:64]
        meant = f"; did you mean {near!r}?" if _NAME.fullmatch(near) else ""
        detail = f"{name!r} is no name here: a letter, then letters, digits and _ . - (64 at most){meant}"
        raise ProblemError(problem("request_invalid", detail))


def _refuse_existing(folder: Path, texts: Mapping[Path, str], replaced: Iterable[Path] = ()) -> None:
    """Raise ProblemError `files_exist` where a file of *texts* is there, or another in place of a folder of any."""
    there = [str(folder / path) for path in texts if (folder / path).is_symlink() or (folder / path).exists()]
    _refuse(_in_place_of_folders(folder, [*texts, *replaced]) or there)


def _in_place_of_folders(folder: Path, paths: Iterable[Path]) -> list[str]:
    """Return what is no folder where *paths* in *folder* need one; of *folder* itself, and those above, the first."""
    for above in (folder, *folder.parents):
        if (above.is_symlink() or above.exists()) and not above.is_dir():
            return [str(above)]
    needed = dict.fromkeys(folder / inside for path in paths for inside in reversed(path.parents))
    return [str(place) for place in needed if (place.is_symlink() or place.exists()) and not place.is_dir()]


def _refuse(there: Sequence[str]) -> None:
    if there:
        details = tuple(ProblemDetail(pointer="", code="files_exist", detail=path) for path in there)
        raise ProblemError(problem("files_exist", ", ".join(there), errors=details))


def _write(folder: Path, texts: Mapping[Path, str]) -> None:
    _refuse(_in_place_of_folders(folder, texts))
    folder.mkdir(parents=True, exist_ok=True)
    if any(SCHEMAS in path.parents for path in texts):
        (folder / SCHEMAS.parent).mkdir(mode=PRIVATE, exist_ok=True)
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
