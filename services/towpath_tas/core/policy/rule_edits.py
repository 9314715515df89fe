"""Adds, replaces or removes one rule in the text of a policy, and leaves the rest as people wrote it.

An edit is accepted only if the new text reads as exactly the old rules with that one change. Where the lines of a rule
can't be distinguished (several rules on one line), the list of rules is written anew: same rules, no comments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from towpath_contracts.problems.registry import ProblemDetail
from towpath_tas.core.policy.conditions import ConditionCompiler
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import read_policy

EMPTY = "kind: Policy\nrules: []\n"
"""The policy of a project that never had one."""

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedPolicyText:
    """The new text, or the problems; `rewritten`: the list of rules was written anew."""

    text: str = ""
    rewritten: bool = False
    problems: tuple[ProblemDetail, ...] = ()


def put_rule(text: str, name: str, rule: Mapping[str, Any], compiler: ConditionCompiler) -> EditedPolicyText:
    """Return *text* with *rule* in place of the one named *name*, or added at the end."""
    lonely = read_policy(_document([dict(rule)]), compiler)
    if lonely.problems:
        return EditedPolicyText(problems=lonely.problems)
    (new,) = lonely.rules
    if new.name != name:
        detail = f"the rule is named {new.name!r}, not {name!r}; to rename one, remove it and put the other"
        return EditedPolicyText(problems=(ProblemDetail(pointer="/rule/name", code="name", detail=detail),))
    old = read_policy(text, compiler).rules
    wanted = [new if known.name == name else known for known in old]
    if all(known.name != name for known in old):
        wanted.append(new)
    return _first_equal(wanted, compiler, _spliced(text, name, rule), _rewritten(text, name, rule))


def remove_rule(text: str, name: str, compiler: ConditionCompiler) -> EditedPolicyText | None:
    """Return *text* without the rule named *name*; None where it has none."""
    old = read_policy(text, compiler).rules
    wanted = [known for known in old if known.name != name]
    if len(wanted) == len(old):
        return None
    return _first_equal(wanted, compiler, _spliced(text, name, None), _rewritten(text, name, None))


def _first_equal(wanted: Sequence[Rule], compiler: ConditionCompiler, *tries: str | None) -> EditedPolicyText:
    """Return the first of *tries* that reads as *wanted*: the edit in place, else the rewritten list."""
    for rewritten, tried in enumerate(tries):
        if tried is not None and list(read_policy(tried, compiler).rules) == list(wanted):
            return EditedPolicyText(text=tried, rewritten=bool(rewritten))
    detail = "this matrix can't be changed rule by rule; apply it whole"
    return EditedPolicyText(problems=(ProblemDetail(code="form", detail=detail),))


def _spliced(text: str, name: str, rule: Mapping[str, Any] | None) -> str | None:
    """Change only the lines of the rule; None if they contain something else too."""
    listed = rules_node(text)
    if listed is None or listed.flow_style or not listed.value:
        return None
    lines = text.splitlines(keepends=True)
    indent = listed.start_mark.column
    spans = [(node.start_mark.line, last_line(node)) for node in listed.value]
    place = next((at for at, node in enumerate(listed.value) if rule_name(node) == name), None)
    if place is None:
        at = spans[-1][1] + 1
        head = lines[:at]
        if head and not head[-1].endswith("\n"):
            head[-1] += "\n"
        return "".join([*head, list_item(rule or {}, indent), *lines[at:]])
    first, last = spans[place]
    if rule is not None:
        return "".join([*lines[:first], list_item(rule, indent), *lines[last + 1 :]])
    if len(spans) == 1:
        return None  # an empty list has another form
    least = spans[place - 1][1] + 1 if place else 0
    while first > least and lines[first - 1].strip().startswith("#") and _indent(lines[first - 1]) == indent:
        first -= 1  # the comment above a rule belongs to it
    return "".join([*lines[:first], *lines[last + 1 :]])


def _rewritten(text: str, name: str, rule: Mapping[str, Any] | None) -> str | None:
    """Write the list of rules anew in its place; what is around it stays."""
    listed = rules_node(text)
    if listed is None:
        return None
    written = yaml.load(text, Loader=_LOADER)["rules"]  # noqa: S506 - the loader is a safe one
    rules = [one for one in written if rule is not None or one["name"] != name]
    if rule is not None:
        known = [one["name"] for one in rules]
        if name in known:
            rules[known.index(name)] = dict(rule)
        else:
            rules.append(dict(rule))
    lines = text.splitlines(keepends=True)
    first = listed.start_mark
    last = listed.end_mark if listed.flow_style else None
    head = "".join([*lines[: first.line], lines[first.line][: first.column]]).rstrip(" \n") if lines else ""
    if last is not None:
        tail = "".join([lines[last.line][last.column :], *lines[last.line + 1 :]]).lstrip(" \n")
    else:
        tail = "".join(lines[last_line(listed) + 1 :])
    body = "".join("\n" + list_item(one, 2).rstrip("\n") for one in rules) if rules else " []"
    return f"{head}{body}\n{tail}"


def _document(rules: Sequence[Mapping[str, Any]]) -> str:
    return _dumped({"kind": "Policy", "rules": list(rules)})


def list_item(rule: Mapping[str, Any], indent: int) -> str:
    lines = _dumped(dict(rule)).splitlines(keepends=True)
    return "".join(" " * indent + ("- " if number == 0 else "  ") + line for number, line in enumerate(lines))


def _dumped(value: Any) -> str:
    dumped: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return dumped


def rules_node(text: str) -> yaml.SequenceNode | None:
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError:
        return None
    if not isinstance(root, yaml.MappingNode):
        return None
    found = [value for key, value in root.value if key.value == "rules"]
    return found[0] if found and isinstance(found[0], yaml.SequenceNode) else None


def rule_name(node: yaml.Node) -> str | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value.value for key, value in node.value if key.value == "name"), None)


def last_line(node: yaml.Node) -> int:
    """Return the last line of *node*: the end of a block is only known from its last leaf."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return last_line(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return last_line(node.value[-1])
    end = node.end_mark
    return int(end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
