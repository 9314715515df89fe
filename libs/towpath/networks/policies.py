"""Permission matrices written in Python: the same rules as in a policy file, with types that editors know.

A `Policy` is checked in form where it is written, and its conditions for what can be read and for the names in them;
the tool-access service alone knows which functions they may call, and what they cost.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import get_args

import yaml
from pydantic import ValidationError

from towpath.declared_places import DeclaredPlace, checking_keywords, checks_keywords, declared_place
from towpath.errors import DeclarationError
from towpath.networks.spec_files import PolicyFile
from towpath_contracts.base import JsonObject
from towpath_contracts.files.policy_document import (
    CALLER_KEYS,
    DEFAULT_EXPIRES_S,
    DocumentRule,
    OnExpiry,
    ProfileName,
    RuleEffect,
    RuleRate,
)
from towpath_contracts.problems.cel_faults import CEL_LITERAL, compile_cel, foreign_operator, unknown_names
from towpath_contracts.problems.cel_library import cel_library
from towpath_contracts.problems.input_faults import details_of, in_plain_words

_TOOLSET = re.compile(r"[A-Za-z0-9_-]+\.")
"""How a pattern begins that names a toolset."""

CONDITION_NAMES = ("agent", "args", "caller", "origin", "run")
"""What a condition sees (docs/policies.md)."""

_TYPES = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"})
_ELEMENT = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*(\w+)\s*,")
"""The name that a macro gives to an element."""

PROFILES: tuple[str, ...] = get_args(ProfileName)


@checking_keywords({"who": "write agent=, network= and the other keys of who beside the others"})
@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule, `PolicyRule("refunds", tool="refund", effect="require_approval", when="args.amount > 100")`.

    `project`, `network`, `agent`, `agent_type` and `caller` are what a file has below `who`; the others are its own
    keys, with the same defaults. Raises DeclarationError for what no rule can have.
    """

    name: str
    effect: RuleEffect = field(kw_only=True)
    tool: str = field(default="*", kw_only=True)
    operation: str = field(default="*", kw_only=True)
    project: str = field(default="*", kw_only=True)
    network: str = field(default="*", kw_only=True)
    agent: str = field(default="*", kw_only=True)
    agent_type: str = field(default="*", kw_only=True)
    caller: str = field(default="*", kw_only=True)
    when: str | bool | None = field(default=None, kw_only=True)
    max_calls_per_run: int | None = field(default=None, kw_only=True)
    rate: RuleRate | None = field(default=None, kw_only=True)
    max_cost_per_run_usd: float | None = field(default=None, kw_only=True)
    expires_s: int = field(default=DEFAULT_EXPIRES_S, kw_only=True)
    quorum: int = field(default=1, kw_only=True)
    on_expiry: OnExpiry = field(default="deny", kw_only=True)
    discovered: bool = field(default=False, kw_only=True)
    note: str = field(default="", kw_only=True)
    owner: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        try:
            self._document()
        except ValidationError as error:
            place = declared_place()
            found = in_plain_words(details_of(error, DocumentRule))
            said = "; ".join(f"{one.pointer.removeprefix('/').removeprefix('who/')}: {one.detail}" for one in found)
            msg = f"{f'{place}: ' if place is not None else ''}rule {self.name!r}: {said}"
            raise DeclarationError(msg) from None
        if faults := list(self._faults()):
            place = declared_place()
            msg = f"{f'{place}: ' if place is not None else ''}rule {self.name!r}: {'; '.join(faults)}"
            raise DeclarationError(msg)

    def _faults(self) -> Iterator[str]:
        """Yield what a file with this rule is refused for, in the words of who would refuse it."""
        if isinstance(self.when, str) and (fault := condition_fault(self.when)):
            yield f"when: {fault}"
        if self.effect == "deny":
            for key in ("max_calls_per_run", "rate", "max_cost_per_run_usd"):
                if getattr(self, key) is not None:
                    yield f"{key}: a deny rule has no limit"
        if self.effect != "require_approval":
            usual = {"expires_s": DEFAULT_EXPIRES_S, "quorum": 1, "on_expiry": "deny"}
            for key in (one for one, value in usual.items() if getattr(self, one) != value):
                yield f"{key}: only a require_approval rule has it"
        if self.discovered and self.effect == "deny":
            yield "discovered: a deny rule holds for discovered tools as well"
        elif self.discovered and not _TOOLSET.match(self.tool):
            yield "discovered: tool= must begin with the toolset's name, like 'files.*'"

    def to_json(self) -> JsonObject:
        """Return the rule as a policy file has it: what is left at its default is left out."""
        return self._document().model_dump(mode="json", exclude_defaults=True)

    def _document(self) -> DocumentRule:
        written = asdict(self)
        who = {key: written.pop(key) for key in CALLER_KEYS}
        return DocumentRule.model_validate({**written, "who": who})


@checks_keywords
@dataclass(frozen=True, slots=True)
class Policy:
    """A permission matrix: `Policy([PolicyRule(…), …])`, for `client.policy.apply`, a harness, or a file.

    Deny comes before require_approval, and that before allow; without a rule all is denied. `profile` adds rules below.
    """

    rules: Sequence[PolicyRule]
    profile: ProfileName | None = field(default=None, kw_only=True)
    note: str = field(default="", kw_only=True)
    declared_at: DeclaredPlace | None = field(default=None, kw_only=True, repr=False, compare=False)
    """The line that declares it, found by itself."""

    def __post_init__(self) -> None:
        """Raise DeclarationError for what is no list of rules, a rule that is there twice, and an unknown profile."""
        place = self.declared_at or declared_place()
        object.__setattr__(self, "declared_at", place)
        if (fault := self._fault()) is not None:
            raise DeclarationError(f"{place}: {fault}" if place is not None else fault)
        object.__setattr__(self, "rules", tuple(self.rules))

    def _fault(self) -> str | None:
        written: object = self.rules
        if not isinstance(written, list | tuple):
            return "rules is a list: write Policy([PolicyRule(…), …])"
        for rule in written:
            if not isinstance(rule, PolicyRule):
                return f"a rule is written PolicyRule('NAME', effect=…), not as {type(rule).__name__}"
        for name, count in Counter(rule.name for rule in self.rules).items():
            if count > 1:
                return f"{count} rules are named {name!r}: each has a name of its own"
        if self.profile is not None and self.profile not in PROFILES:
            return f"there is no profile {self.profile!r}; there are {', '.join(PROFILES)}"
        return None

    def to_yaml(self) -> str:
        """Return the text of the policy file that says the same."""
        said = {"profile": self.profile, "note": self.note}
        head = {"kind": "Policy", **{name: one for name, one in said.items() if one}}
        written = {**head, "rules": [rule.to_json() for rule in self.rules]}
        return str(yaml.safe_dump(written, sort_keys=False, allow_unicode=True))

    def to_file(self) -> PolicyFile:
        """Return the policy as it is applied: its text, and the line of the program that declares it."""
        return PolicyFile(text=self.to_yaml(), source=str(self.declared_at or ""))


def condition_fault(text: str) -> str:
    """Return what keeps *text* from being a condition; empty where nothing is found.

    Without the library of CEL, which the extras `testing` and `embedded` bring, only operators of other languages are
    found, and a text that is not closed. The tool-access service reads each again, and alone refuses what costs too
    much, comments, raw texts, and functions and members of `origin` that there are not.
    """
    if find_spec("cel") is None:
        return foreign_operator(text)
    try:
        used = set(compile_cel(text, cel_library().compile).variables())
    except ValueError as error:
        return str(error)
    elements = _ELEMENT.findall(CEL_LITERAL.sub(" ", text))
    unknown = used - _TYPES - {*CONDITION_NAMES, *elements}
    return unknown_names(unknown, CONDITION_NAMES) if unknown else ""
