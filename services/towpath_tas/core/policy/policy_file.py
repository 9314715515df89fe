"""Reads a policy: YAML, validated as a whole.

A file with any problem is refused, and all problems are reported at once with their lines, so that they can be fixed in
one go. YAML anchors are refused: a permission must be readable where it stands. What is too much to be a policy is
refused before any of it is built, and after `MAX_PROBLEMS` nothing more is looked at.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import yaml

from towpath_contracts.canonical import digest
from towpath_contracts.files.policy_document import (
    CALLER_KEYS,
    DEFAULT_EXPIRES_S,
    EFFECTS,
    MAX_CALLS,
    MAX_COST_USD,
    MAX_EXPIRES_S,
    MAX_QUORUM,
    MAX_RULES,
    MAX_WINDOW_S,
    MIN_EXPIRES_S,
    NAME_GLOB,
    ON_EXPIRY,
    RATE_KEYS,
    RULE_KEYS,
    RULE_NAME,
    TAKEN_BY,
    TOP_KEYS,
    other_kind,
)
from towpath_contracts.problems.foreign_fields import unknown_field
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import ProblemDetail
from towpath_readings.yaml_lines import describe_yaml_fault
from towpath_tas.core.policy.conditions import ConditionCompiler
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_size import PolicySize

MAX_NODES = 250_000
"""Texts, lists and mappings: 25 to each rule. A megabyte holds twice as many, which take seconds to be built."""

MAX_PROBLEMS = 100
"""After more problems the file is probably of another kind."""

_DEPTH_OF_RULES = 2
"""Collections around each rule: the policy and its list."""

_NAME = re.compile(RULE_NAME)
_GLOB = re.compile(NAME_GLOB)
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class ParsedPolicy:
    """The rules with the lines where they begin, or the problems. Never both."""

    rules: tuple[Rule, ...] = ()
    lines: tuple[int, ...] = ()
    problems: tuple[ProblemDetail, ...] = ()


@dataclass(slots=True)
class _Findings:
    problems: list[ProblemDetail] = field(default_factory=list)
    size: PolicySize = field(default_factory=PolicySize)
    oversized: set[str] = field(default_factory=set)
    meant: set[str] = field(default_factory=set)
    """Places that an unknown key was meant for: that they are empty needs no other message."""

    @property
    def full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS

    def add(self, node: yaml.Node | None, pointer: str, code: str, detail: str) -> None:
        if not self.full:
            line = "" if node is None else f"line {node.start_mark.line + 1}: "
            self.problems.append(ProblemDetail(pointer=pointer, code=code, detail=line + detail))

    def add_missing(self, node: yaml.Node, pointer: str, detail: str, code: str = "missing") -> None:
        """Tell of a key that is missing, unless it was told already that another stands in its place."""
        if pointer not in self.meant:
            self.add(node, pointer, code, detail)

    def add_size(self, node: yaml.Node, pointer: str, code: str, detail: str) -> None:
        """Tell once of each kind what there is too much of: all that follows is too much as well."""
        if detail and code not in self.oversized:
            self.oversized.add(code)
            self.add(node, pointer, code, detail)


def read_policy(text: str, compiler: ConditionCompiler) -> ParsedPolicy:
    """Read a policy; *compiler* checks its conditions."""
    found = _Findings()
    root = _compose(text, found)
    placed: list[tuple[Rule, int]] = []
    if root is not None:
        placed = _document(root, compiler, found)
    if found.problems:
        return ParsedPolicy(problems=tuple(found.problems))
    return ParsedPolicy(rules=tuple(rule for rule, _ in placed), lines=tuple(line for _, line in placed))


def rule_row(rule: Rule) -> dict[str, Any]:
    """Return *rule* as plain JSON, for the table and for people."""
    return asdict(rule)


def rules_digest(rows: Iterable[Sequence[Any]]) -> str:
    """Return the digest of stored rules: of each its place, name, effect, tool, operation, and itself as `rule_row`."""
    return digest([list(row) for row in rows])


def rule_from_row(row: Mapping[str, Any]) -> Rule:
    """Return the rule of a stored row; unknown members of a newer release are ignored."""
    known = Rule.__dataclass_fields__
    return Rule(**{name: value for name, value in row.items() if name in known})


def unreadable(text: str) -> ProblemDetail | None:
    """Return why *text* may not be composed: nested aliases grow without limit, and large texts take long.

    It reads no further than to what is too much. Raises YAMLError.
    """
    nodes = rules = depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            return ProblemDetail(code="alias", detail=f"{_line(event)}anchors and aliases are not allowed in a policy")
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            nodes += 1
            rules += depth == _DEPTH_OF_RULES
            depth += isinstance(event, yaml.CollectionStartEvent)
        if rules > MAX_RULES or nodes > MAX_NODES:
            what = f"{MAX_RULES} rules" if rules > MAX_RULES else f"{MAX_NODES} values"
            detail = f"{_line(event)}more than {what}; no more are allowed"
            return ProblemDetail(pointer="/rules", code="too_many", detail=detail)
    return None


def _line(event: yaml.Event) -> str:
    return "" if event.start_mark is None else f"line {event.start_mark.line + 1}: "


def _compose(text: str, found: _Findings) -> yaml.Node | None:
    try:
        fault = unreadable(text)
        if fault is not None:
            found.problems.append(fault)
            return None
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        line, what = describe_yaml_fault(error, text)
        found.problems.append(ProblemDetail(code="yaml", detail=f"line {line}: not YAML: {what}"))
        return None
    if node is None:
        found.problems.append(ProblemDetail(code="empty", detail="the policy is empty; start with 'kind: Policy'"))
    return node


def _other_kind(root: yaml.Node) -> yaml.ScalarNode | None:
    """Return where *root* says that it is another file of the platform's."""
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    kinds = (value for key, value in pairs if key.value == "kind" and isinstance(value, yaml.ScalarNode))
    return next((one for one in kinds if one.value in TAKEN_BY and one.value != "Policy"), None)


def _document(root: yaml.Node, compiler: ConditionCompiler, found: _Findings) -> list[tuple[Rule, int]]:
    if (other := _other_kind(root)) is not None:
        found.add(other, "/kind", "kind", other_kind(other.value, "Policy", "FILE"))
        return []
    top = _mapping(root, "", TOP_KEYS, found)
    if top is None:
        return []
    _check_kind(root, top.get("kind"), found)
    listed = top.get("rules")
    if listed is None:
        found.add_missing(root, "/rules", "'rules' is missing; without rules everything is denied: write 'rules: []'")
        return []
    if not isinstance(listed, yaml.SequenceNode):
        found.add(listed, "/rules", "type", "'rules' must be a list")
        return []
    if len(listed.value) > MAX_RULES:
        found.add(listed, "/rules", "too_many", f"{len(listed.value)} rules, at most {MAX_RULES} are allowed")
        return []
    placed = []
    for place, node in enumerate(listed.value):
        rule = _rule(node, f"/rules/{place}", compiler, found)
        if rule is not None:
            placed.append((rule, node.start_mark.line + 1))
        if found.full:
            return []
    _unique_names(listed.value, found)
    return placed


def _check_kind(root: yaml.Node, kind: yaml.Node | None, found: _Findings) -> None:
    if kind is None:
        found.add_missing(root, "/kind", "a policy begins with 'kind: Policy'", code="kind")
    elif _text(kind, "/kind", found) != "Policy":
        found.add(kind, "/kind", "kind", "a policy begins with 'kind: Policy'")


def _unique_names(nodes: Sequence[yaml.Node], found: _Findings) -> None:
    """Check the names as written, so that a duplicate is found also in a rule with other problems."""
    seen: set[str] = set()
    for place, node in enumerate(nodes):
        name = _written_name(node)
        if name in seen:
            found.add(node, f"/rules/{place}/name", "duplicate", f"a rule named {name!r} stands above")
        if name:
            seen.add(name)


def _written_name(node: yaml.Node) -> str:
    """Return the name that a rule gives itself, or an empty string."""
    if not isinstance(node, yaml.MappingNode):
        return ""
    names = (value for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == "name")
    first = next(names, None)
    return str(first.value) if isinstance(first, yaml.ScalarNode) else ""


def _rule(node: yaml.Node, at: str, compiler: ConditionCompiler, found: _Findings) -> Rule | None:
    before = len(found.problems)
    parts = _mapping(node, at, RULE_KEYS, found)
    if parts is None:
        return None
    values: dict[str, Any] = {}
    name = _required(parts, "name", node, at, found)
    if name is not None and not _NAME.fullmatch(name):
        found.add(parts["name"], f"{at}/name", "name", f"{name!r} is not a name: letters, digits and _ . : / - only")
    effect = _required(parts, "effect", node, at, found)
    if effect is not None and effect not in EFFECTS:
        found.add(parts["effect"], f"{at}/effect", "effect", _no_choice(effect, EFFECTS))
    who = _mapping(parts["who"], f"{at}/who", CALLER_KEYS, found) if "who" in parts else {}
    for key, glob in [*(who or {}).items(), *((key, parts[key]) for key in ("tool", "operation") if key in parts)]:
        values[key] = _globbed(glob, f"{at}/{'who/' if key in CALLER_KEYS else ''}{key}", found)
    for key in ("note", "owner"):
        if key in parts:
            values[key] = _text(parts[key], f"{at}/{key}", found) or ""
    if "when" in parts:
        values["when"] = _condition(parts["when"], f"{at}/when", compiler, found)
    _limits(parts, effect, at, values, found)
    _approval_settings(parts, effect, at, values, found)
    if "discovered" in parts:
        values["discovered"] = _discovered(parts, effect, at, found)
    if len(found.problems) > before:
        return None
    content = {"name": name, "effect": effect, **values}
    return Rule(
        **content, digest=digest({key: value for key, value in content.items() if key not in {"note", "owner"}})
    )


def _discovered(parts: Mapping[str, yaml.Node], effect: str | None, at: str, found: _Findings) -> bool:
    """Read `discovered`: it has a meaning only if the pattern names a toolset and the rule allows something."""
    node = parts["discovered"]
    if _text(node, f"{at}/discovered", found) not in {"true", "false"}:
        found.add(node, f"{at}/discovered", "type", "must be true or false")
    elif effect == "deny":
        found.add(node, f"{at}/discovered", "useless", "a deny rule holds for discovered tools as well")
    elif not re.match(r"[A-Za-z0-9_-]+\.", str(parts["tool"].value) if "tool" in parts else ""):
        found.add(node, f"{at}/discovered", "toolset", "'tool' must begin with the toolset's name, like 'files.*'")
    return str(node.value) == "true"


def _limits(
    parts: Mapping[str, yaml.Node], effect: str | None, at: str, values: dict[str, Any], found: _Findings
) -> None:
    for key in ("max_calls_per_run", "rate", "max_cost_per_run_usd"):
        if key in parts and effect == "deny":
            found.add(parts[key], f"{at}/{key}", "useless", "a deny rule has no limit")
    if "max_calls_per_run" in parts:
        values["max_calls_per_run"] = _whole_number(
            parts["max_calls_per_run"], f"{at}/max_calls_per_run", 1, MAX_CALLS, found
        )
    if "rate" in parts:
        _rate(parts["rate"], f"{at}/rate", values, found)
    if "max_cost_per_run_usd" in parts:
        values["max_cost_per_run_usd"] = _cost(parts["max_cost_per_run_usd"], f"{at}/max_cost_per_run_usd", found)


def _rate(node: yaml.Node, at: str, values: dict[str, Any], found: _Findings) -> None:
    rate = _mapping(node, at, RATE_KEYS, found)
    if rate is None:
        return
    for key, most in (("calls", MAX_CALLS), ("per_s", MAX_WINDOW_S)):
        if key not in rate:
            found.add_missing(node, f"{at}/{key}", f"{key!r} is missing: write 'rate: {{calls: 10, per_s: 60}}'")
        else:
            values[f"rate_{key}"] = _whole_number(rate[key], f"{at}/{key}", 1, most, found)


def _approval_settings(
    parts: Mapping[str, yaml.Node], effect: str | None, at: str, values: dict[str, Any], found: _Findings
) -> None:
    for key in ("expires_s", "quorum", "on_expiry"):
        if key in parts and effect != "require_approval":
            what = "expires" if key == "expires_s" else f"has '{key}'"
            found.add(parts[key], f"{at}/{key}", "useless", f"only a require_approval rule {what}")
    if "expires_s" in parts:
        seconds = _whole_number(parts["expires_s"], f"{at}/expires_s", MIN_EXPIRES_S, MAX_EXPIRES_S, found)
        values["expires_s"] = DEFAULT_EXPIRES_S if seconds is None else seconds
    if "quorum" in parts:
        values["quorum"] = _whole_number(parts["quorum"], f"{at}/quorum", 1, MAX_QUORUM, found)
    if "on_expiry" in parts:
        action = _text(parts["on_expiry"], f"{at}/on_expiry", found)
        if action is not None and action not in ON_EXPIRY:
            found.add(parts["on_expiry"], f"{at}/on_expiry", "on_expiry", _no_choice(action, ON_EXPIRY))
        values["on_expiry"] = action


def _no_choice(given: str, choices: Sequence[str]) -> str:
    return f"{given!r} is not one of {', '.join(choices)}{suggest_name(given, choices)}"


def _mapping(node: yaml.Node, at: str, allowed: Sequence[str], found: _Findings) -> dict[str, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        found.add(node, at, "type", "must be a mapping, like 'key: value'")
        return None
    parts: dict[str, yaml.Node] = {}
    for key_node, value in node.value:
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        if key not in allowed:
            said, meant = unknown_field(key, list(dict.fromkeys(allowed)))
            found.add(key_node, f"{at}/{key}", "unknown_key", said)
            found.meant.add(f"{at}/{meant}")
        elif key in parts:
            found.add(key_node, f"{at}/{key}", "duplicate", f"{key!r} is given twice")
        else:
            parts[key] = value
        if found.full:
            return None
    return parts


def _required(parts: Mapping[str, yaml.Node], key: str, node: yaml.Node, at: str, found: _Findings) -> str | None:
    if key not in parts:
        found.add_missing(node, f"{at}/{key}", f"{key!r} is missing: add it")
        return None
    return _text(parts[key], f"{at}/{key}", found)


def _text(node: yaml.Node, at: str, found: _Findings) -> str | None:
    if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:null":
        return str(node.value)
    found.add(node, at, "type", "must be text")
    return None


def _globbed(node: yaml.Node, at: str, found: _Findings) -> str | None:
    text = _text(node, at, found)
    if text is not None and not _GLOB.fullmatch(text):
        found.add(node, at, "glob", f"{text!r} is not a pattern: letters, digits, _ . : / - and * ? [ ] only")
    elif text is not None:
        found.add_size(node, at, "patterns_too_large", found.size.add_pattern(text))
    return text


def _whole_number(node: yaml.Node, at: str, least: int, most: int, found: _Findings) -> int | None:
    text = _text(node, at, found)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
        found.add(node, at, "range", f"must be a whole number from {least} to {most}, not {text!r}")
        return None
    return int(text)


def _cost(node: yaml.Node, at: str, found: _Findings) -> float | None:
    text = _text(node, at, found)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,7}(\.\d{1,6})?", text) or not 0 < float(text) <= MAX_COST_USD:
        detail = f"must be US dollars such as 0.50, above 0 and at most {MAX_COST_USD}, not {text!r}"
        found.add(node, at, "range", detail)
        return None
    return float(text)


def _condition(node: yaml.Node, at: str, compiler: ConditionCompiler, found: _Findings) -> str | None:
    text = _text(node, at, found)
    if text is not None:
        is_new = found.size.is_new(text)
        found.add_size(node, at, "conditions_too_large", found.size.add_condition(text))
        if "conditions_too_large" in found.oversized or (not is_new and not found.problems):
            return text  # compiled before, or not any more
        try:
            compiler(text)
        except ValueError as error:
            found.add(node, at, "condition", str(error))
    return text
