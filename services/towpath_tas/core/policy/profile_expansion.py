"""Writes the rules of a profile out into the policy that names it.

`profile: balanced` at the head of a policy puts that profile's rules below its own. They are written out before the
policy is read and stored, so a stored version always means what it meant, whatever later releases make of the profile.
The policy's own lines keep their places, so problems are told with the lines of the file. A rule of the policy that
bears the name of one of the profile's takes its place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.problems.registry import ProblemDetail
from towpath_tas.core.policy.policy_file import unreadable
from towpath_tas.core.policy.rule_edits import last_line, list_item, rule_name, rules_node

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_LOADER: type[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Reads every value as text, so dates and tags are no faults."""

_ALONE = re.compile(r"profile:[ \t]+(?P<quote>[\"']?)(?P<name>[\w-]+)(?P=quote)[ \t]*(?:#.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedPolicy:
    """The text of a policy with its profile written out, or the problems. Never both.

    `places` are those of the rules, in their order: the profile that has a rule, empty where the policy has it itself,
    and its line there. Empty where no profile was written out: then the lines are those of the text.
    """

    text: str = ""
    places: tuple[tuple[str, int], ...] = ()
    problems: tuple[ProblemDetail, ...] = ()


def expand_profile(text: str, profiles: Mapping[str, str]) -> ExpandedPolicy:
    """Return *text* with the profile that it names written out; as it is, where it names none or is no mapping."""
    if "profile" not in text:  # only a plain line can name one
        return ExpandedPolicy(text=text)
    try:
        root = None if unreadable(text) is not None else yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError:
        return ExpandedPolicy(text=text)  # who reads the policy says what is wrong
    if not isinstance(root, yaml.MappingNode):
        return ExpandedPolicy(text=text)
    keys = [key for key, _ in root.value if isinstance(key, yaml.ScalarNode)]
    named = [key for key in keys if key.value == "profile"]
    if not named:
        return ExpandedPolicy(text=text)
    if len(named) > 1:
        return _refused(named[1], "duplicate", "'profile' is given twice; a policy has one")
    lines = text.splitlines(keepends=True)
    line = named[0].start_mark.line
    written = _ALONE.fullmatch(lines[line].rstrip())
    if written is None or root.flow_style:
        return _refused(named[0], "form", "write 'profile: balanced' on a line of its own")
    name = written.group("name")
    if name not in profiles:
        hint = suggest_or_list(name, profiles)
        return _refused(named[0], "profile", f"no profile is called {name!r}{hint}")
    head = "#" if any(key.value == "kind" for key in keys) else "kind: Policy #"
    lines[line] = f"{head} profile {name}; its rules stand below those of this file\n"
    listed = [value for key, value in root.value if key.value == "rules"]
    if len(listed) > 1 or not all(map(_is_readable, listed)):
        return ExpandedPolicy(text="".join(lines))  # who reads the policy says what is wrong
    return _written_out("".join(lines), name, profiles[name], named[0])


def _is_readable(node: yaml.Node) -> bool:
    """Return whether *node* is a list of mappings, whose names, where they have one, are texts."""
    if not isinstance(node, yaml.SequenceNode):
        return False
    rules = [one for one in node.value if isinstance(one, yaml.MappingNode)]
    return len(rules) == len(node.value) and all(isinstance(rule_name(one) or "", str) for one in rules)


def _written_out(text: str, name: str, profile: str, named: yaml.Node) -> ExpandedPolicy:
    listed = rules_node(text)
    taken = {rule_name(node) for node in listed.value} if listed is not None else set()
    indent = listed.start_mark.column if listed is not None and listed.value and not listed.flow_style else 2
    added = f"{' ' * indent}# profile {name}\n{_rules_text(profile, taken, indent)}"
    if text and not text.endswith("\n"):
        text += "\n"
    lines = text.splitlines(keepends=True)
    loader = _LOADER
    try:
        own = _rules(text, loader)
    except (yaml.YAMLError, ValueError):  # such as a date that is none: policies are read as texts, so that is no fault
        loader = _TEXT_LOADER
        try:
            own = _rules(text, loader)
        except yaml.YAMLError as error:
            return _unreadable(error, named)
    if listed is None:
        found = f"{text}rules:\n{added}"
    elif listed.value and not listed.flow_style:
        at = last_line(listed) + 1
        found = "".join([*lines[:at], added, *lines[at:]])
    else:
        rewritten = "".join(list_item(one, 2) for one in own)
        first, last = listed.start_mark, listed.end_mark
        head = "".join([*lines[: first.line], lines[first.line][: first.column]]).rstrip(" \n")
        tail = "".join([lines[last.line][last.column :], *lines[last.line + 1 :]]).lstrip(" \n")
        found = f"{head}\n{rewritten}{added}{tail}"
    wanted = [*own, *(rule for rule in _rules(profile, loader) if rule["name"] not in taken)]
    if not _reads_as(found, wanted, loader):  # such as behind the end of the document (`...`)
        return _refused(
            named, "form", "the profile can't be written out here: put the rules last in the file, in lines"
        )
    return ExpandedPolicy(text=found, places=_places(listed, name, profile, taken))


def _places(
    listed: yaml.SequenceNode | None, name: str, profile: str, taken: set[str | None]
) -> tuple[tuple[str, int], ...]:
    """Return where the rules stand: the own ones keep their lines, also where their list was written anew."""
    own = [("", node.start_mark.line + 1) for node in (listed.value if listed is not None else ())]
    theirs = rules_node(profile)
    added = [node for node in (theirs.value if theirs is not None else ()) if rule_name(node) not in taken]
    return (*own, *((f"profile {name}", node.start_mark.line + 1) for node in added))


def _rules(text: str, loader: type[Any]) -> list[Any]:
    read = yaml.load(text, Loader=loader)  # noqa: S506 - both loaders are safe ones
    return list((read.get("rules") if isinstance(read, Mapping) else None) or [])


def _reads_as(text: str, wanted: list[Any], loader: type[Any]) -> bool:
    try:
        return _rules(text, loader) == wanted
    except (yaml.YAMLError, ValueError):
        return False


def _unreadable(error: yaml.YAMLError, named: yaml.Node) -> ExpandedPolicy:
    """Say what can't be read: left to who reads the policy, it might pass there, and the profile with it."""
    mark = getattr(error, "problem_mark", None)
    line = named.start_mark.line if mark is None else mark.line
    detail = f"line {line + 1}: can't be read: {getattr(error, 'problem', None) or error}"
    return ExpandedPolicy(problems=(ProblemDetail(code="yaml", detail=detail),))


def _rules_text(profile: str, taken: set[str | None], indent: int) -> str:
    """Return the lines of the profile's rules, with the comments above each, but for those whose names are *taken*."""
    listed = rules_node(profile)
    if listed is None:
        return ""
    lines, found, begin = profile.splitlines(keepends=True), [], listed.start_mark.line
    for node in listed.value:
        end = last_line(node) + 1
        if rule_name(node) not in taken:
            found += lines[begin:end]
        begin = end
    by = " " * indent
    return "".join(f"{by}{line[listed.start_mark.column :]}" if line.strip() else line for line in found)


def _refused(node: yaml.Node, code: str, detail: str) -> ExpandedPolicy:
    detail = f"line {node.start_mark.line + 1}: {detail}"
    return ExpandedPolicy(problems=(ProblemDetail(pointer="/profile", code=code, detail=detail),))
