"""The permission matrix: which agent may use which tool.

Deny takes precedence over require_approval, and that over allow; without a matching rule the verdict is deny. The order
of the rules decides nothing but which of several equal rules is named. A rule whose limit is used up denies, instead of
not applying: otherwise a wider rule would lift the limit.
"""

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from towpath_contracts.files.policy_document import DEFAULT_EXPIRES_S, OnExpiry, RuleEffect
from towpath_contracts.tools.access import RuleEvaluation
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_contracts.tools.name_globs import name_matches
from towpath_tas.core.policy.conditions import Condition, ConditionCompiler, ConditionContext, ConditionResult

LimitKind = Literal["calls", "rate", "cost"]

PATTERN_FIELDS = ("tool", "operation", "project", "network", "agent", "agent_type", "caller")
"""The fields of a call that patterns of rules match, in this order."""

MAX_CACHED = 20_000
"""Distinct (who, tool) pairs whose rules are remembered; callers choose some of the names, so memory must be
bounded."""

MAX_MISSING_LOOKED_AT = 200
"""Rules that are looked at for what is missing to open a tool: a tenth of a millisecond."""

_TOOLSET_HEAD = re.compile(r"[A-Za-z0-9_-]+\.")
"""The beginning of a pattern that names a toolset: `files.*`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the matrix. Globs know `*`, `?` and `[…]`; `digest` covers the whole rule, but for where it stands.

    `quorum` people must approve; `on_expiry` says what happens if they do not in time. `rate_calls` in any window of
    `rate_per_s` seconds are allowed to the whole project. Costs are US dollars. With `discovered`, a pattern that
    begins with the name of a toolset also allows the discovered tools of it. `at` is where people find the rule:
    `policies.yaml:14`; empty where that is not known.
    """

    name: str
    effect: RuleEffect
    project: str = "*"
    network: str = "*"
    agent: str = "*"
    agent_type: str = "*"
    caller: str = "*"
    tool: str = "*"
    operation: str = "*"
    when: str | None = None
    max_calls_per_run: int | None = None
    rate_calls: int | None = None
    rate_per_s: int | None = None
    max_cost_per_run_usd: float | None = None
    expires_s: int = DEFAULT_EXPIRES_S
    quorum: int = 1
    on_expiry: OnExpiry = "deny"
    discovered: bool = False
    note: str = ""
    owner: str = ""
    digest: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class CallPrincipal:
    """Who makes a call."""

    network: str
    agent: str
    agent_type: str
    caller: str
    project: str = ""


class MissedPattern(NamedTuple):
    """A pattern of a rule that a call does not match: of which field, the call's `value`, and the `pattern`."""

    field: str
    value: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.field} {self.value!r} is not {self.pattern!r}"


class RateLimit(NamedTuple):
    """A use of a rule that allows `calls` in a window of `per_s` seconds."""

    rule: str
    calls: int
    per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCounters:
    """What was used already, by rule name: `calls` of this run, `rates` in the project's current windows.

    `spent_usd` is what the run has cost; None if a price is unknown, then rules with a cost limit deny.
    """

    calls: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, int] = field(default_factory=dict)
    spent_usd: float | None = None


NO_USAGE = LimitCounters()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixVerdict:
    """The verdict: the effect, the rule named for it, all deciding rules, and the limits that it uses.

    `limited` is the rule whose limit is used up, if that is the reason, and `limit` which of its limits. `unmet` are
    rules whose conditions were not met, for the suggestion.
    """

    effect: RuleEffect
    rule: Rule | None = None
    deciding: tuple[Rule, ...] = ()
    counted: tuple[Rule, ...] = ()
    rated: tuple[RateLimit, ...] = ()
    limited: Rule | None = None
    limit: LimitKind | None = None
    unmet: tuple[Rule, ...] = ()


OUTPUT_PREFIX = "output_"
"""What the pattern of a rule begins with that names the tools which read outputs."""


class Matrix:
    """The rules of one policy version. Conditions are compiled when they are first needed, or by `compile_all`."""

    def __init__(self, rules: Sequence[Rule], compiler: ConditionCompiler, version: int = 0) -> None:
        """Take the *rules* in the order of their file."""
        self.rules = tuple(rules)
        self.version = version
        self._compiler = compiler
        globs: dict[str, re.Pattern[str]] = {}
        self._tests = {id(rule): _tests(rule, globs) for rule in self.rules}
        self._exact: dict[str, list[tuple[int, Rule]]] = {}
        self._wild: list[tuple[int, Rule]] = []
        for place, rule in enumerate(self.rules):
            if is_exact(rule.tool):
                self._exact.setdefault(rule.tool, []).append((place, rule))
            else:
                self._wild.append((place, rule))
        self._found: dict[tuple[CallPrincipal, str, str, bool], tuple[Rule, ...]] = {}
        self._conditions: dict[str, Condition] = {}
        self.names_run = any(rule.when is not None and "run" in rule.when for rule in self.rules)
        self.names_origin = any(rule.when is not None and "origin" in rule.when for rule in self.rules)

    def place_of(self, name: str | None) -> str:
        """Return where people find the rule of that name; empty where there is none, or nobody knows."""
        return next((rule.at for rule in self.rules if rule.name == name), "")

    def candidates(
        self, principal: CallPrincipal, tool: str, operation: str, *, discovered: bool = False
    ) -> tuple[Rule, ...]:
        """Return the rules that match *principal*, *tool* and *operation*, whatever their conditions say.

        A *discovered* tool is allowed only by rules that name it.
        """
        key = (principal, tool, operation, discovered)
        found = self._found.get(key)
        if found is None:
            near = sorted([*self._exact.get(tool, ()), *self._wild], key=lambda placed: placed[0])
            found = tuple(rule for _, rule in near if not self._misses(rule, principal, tool, operation))
            if discovered:
                found = _for_discovered(found)
            if len(self._found) >= MAX_CACHED:
                self._found.clear()
            self._found[key] = found
        return found

    def missing(
        self, principal: CallPrincipal, tool: str, operation: str
    ) -> Iterator[tuple[Rule, tuple[MissedPattern, ...]]]:
        """Yield the rules for *tool* with those of their other patterns that do not match.

        Only so many are looked at: each denied call asks.
        """
        placed = merge(self._exact.get(tool, ()), self._wild, key=itemgetter(0))
        for _, rule in islice(placed, MAX_MISSING_LOOKED_AT):
            missed = tuple(self._missed(rule, principal, tool, operation))
            if not any(one.field == "tool" for one in missed):
                yield rule, missed

    def frees(self, principal: CallPrincipal, spec: ToolSpec) -> bool:
        """Return whether a call of *spec* needs no rule: it reads what its run was given, and no rule names its tool.

        A rule for all tools does not speak of these: who may call a tool may know what it returned.
        """
        if spec.name not in OUTPUT_TOOLS:
            return False
        return not any(
            rule.tool.startswith(OUTPUT_PREFIX) for rule in self.candidates(principal, spec.name, spec.operation)
        )

    def decide(
        self,
        principal: CallPrincipal,
        tool: str,
        operation: str,
        context: Mapping[str, Any],
        used: LimitCounters = NO_USAGE,
        *,
        discovered: bool = False,
    ) -> MatrixVerdict:
        """Return the verdict for a call with *context*, given the *used* limits."""
        context = context if isinstance(context, ConditionContext) else ConditionContext(context)
        matched: dict[RuleEffect, list[Rule]] = {"deny": [], "require_approval": [], "allow": []}
        unmet = []
        for rule in self.candidates(principal, tool, operation, discovered=discovered):
            effect, when = rule.effect, rule.when
            met = ConditionResult.YES if when is None else self.met(when, context)
            if _applies(effect, met):
                matched[effect].append(rule)
            elif effect != "deny":
                unmet.append(rule)
        if discovered and not any(map(names_discovered, (*matched["require_approval"], *matched["allow"]))):
            matched["require_approval"] = matched["allow"] = []  # rules that do not name it only restrict
        return _verdict_of(matched, used, tuple(unmet))

    def trace(
        self,
        principal: CallPrincipal,
        tool: str,
        operation: str,
        context: Mapping[str, Any],
        *,
        discovered: bool = False,
    ) -> tuple[RuleEvaluation, ...]:
        """Return for every rule for this tool how it was evaluated."""
        context = context if isinstance(context, ConditionContext) else ConditionContext(context)
        traces = []
        for rule in self.rules:
            misses = self._misses(rule, principal, tool, operation)
            if misses.startswith("tool "):
                continue
            if misses:
                traces.append(_evaluation(rule, misses))
                continue
            if discovered and rule.effect == "allow" and not names_discovered(rule):
                detail = f"{tool} was discovered, and the rule does not name it"
                traces.append(_evaluation(rule, detail))
                continue
            met = self._met(rule, context)
            detail = "" if rule.when is None else f"condition {met.value}: {rule.when}"
            traces.append(_evaluation(rule, detail, matched=self.applies(rule, context)))
        return tuple(traces)

    def _misses(self, rule: Rule, principal: CallPrincipal, tool: str, operation: str) -> str:
        """Return the first field of *rule* that does not match, or an empty string."""
        return next(map(str, self._missed(rule, principal, tool, operation)), "")

    def _missed(self, rule: Rule, principal: CallPrincipal, tool: str, operation: str) -> Iterator[MissedPattern]:
        who = (principal.project, principal.network, principal.agent, principal.agent_type, principal.caller)
        values = (tool, operation, *who)
        for place, fits in self._tests[id(rule)]:
            if not fits(values[place]):
                name = PATTERN_FIELDS[place]
                yield MissedPattern(name, values[place], getattr(rule, name))

    def applies(self, rule: Rule, context: Mapping[str, Any]) -> bool:
        """Return whether the condition of *rule* holds; an unclear one holds only if the rule restricts."""
        return _applies(rule.effect, self._met(rule, context))

    def _met(self, rule: Rule, context: Mapping[str, Any]) -> ConditionResult:
        return ConditionResult.YES if rule.when is None else self.met(rule.when, context)

    def met(self, when: str, context: Mapping[str, Any]) -> ConditionResult:
        """Evaluate one condition, compiled once."""
        return (self._conditions.get(when) or self._compiled(when))(context)

    def compile_all(self) -> None:
        """Compile every condition, so that no decision does."""
        for rule in self.rules:
            if rule.when is not None and rule.when not in self._conditions:
                self._compiled(rule.when)

    def _compiled(self, when: str) -> Condition:
        condition: Condition
        try:
            condition = self._compiler(when)
        except ValueError:  # it compiled when it was applied; a changed library must not allow
            condition = _unclear
        self._conditions[when] = condition
        return condition


def _evaluation(rule: Rule, detail: str, *, matched: bool = False) -> RuleEvaluation:
    return RuleEvaluation(rule=rule.name, effect=rule.effect, matched=matched, detail=detail, at=rule.at)


def _applies(effect: RuleEffect, met: ConditionResult) -> bool:
    return met is ConditionResult.YES or (met is ConditionResult.UNCLEAR and effect != "allow")


def _unclear(context: Mapping[str, Any]) -> ConditionResult:
    del context
    return ConditionResult.UNCLEAR


def _verdict_of(
    matched: Mapping[RuleEffect, Sequence[Rule]], used: LimitCounters, unmet: tuple[Rule, ...]
) -> MatrixVerdict:
    if matched["deny"]:
        deciding = tuple(matched["deny"])
        return MatrixVerdict(effect="deny", rule=deciding[0], deciding=deciding, unmet=unmet)
    passing = (*matched["require_approval"], *matched["allow"])
    counted = tuple(rule for rule in passing if rule.max_calls_per_run is not None)
    rated = tuple(_rate(rule) for rule in passing if rule.rate_calls is not None)
    for rule in passing:
        limit = _limit(rule, used)
        if limit is not None:
            return MatrixVerdict(
                effect="deny",
                rule=rule,
                deciding=(rule,),
                counted=counted,
                rated=rated,
                limited=rule,
                limit=limit,
                unmet=unmet,
            )
    effect: RuleEffect = "require_approval" if matched["require_approval"] else "allow"
    deciding = tuple(matched[effect])
    if not deciding:
        return MatrixVerdict(effect="deny", unmet=unmet)
    return MatrixVerdict(effect=effect, rule=deciding[0], deciding=deciding, counted=counted, rated=rated, unmet=unmet)


def _limit(rule: Rule, used: LimitCounters) -> LimitKind | None:
    """Return the limit of *rule* that is used up, or None."""
    if rule.max_calls_per_run is not None and used.calls.get(rule.name, 0) >= rule.max_calls_per_run:
        return "calls"
    if rule.rate_calls is not None and used.rates.get(rule.name, 0) >= rule.rate_calls:
        return "rate"
    most = rule.max_cost_per_run_usd
    if most is not None and not (used.spent_usd is not None and used.spent_usd < most):
        return "cost"
    return None


def _rate(rule: Rule) -> RateLimit:
    return RateLimit(rule.name, rule.rate_calls or 0, rule.rate_per_s or 1)


def _tests(rule: Rule, globs: dict[str, re.Pattern[str]]) -> tuple[tuple[int, Callable[[str], object]], ...]:
    """Return what a call must match, by position in `PATTERN_FIELDS`; without patterns that match everything.

    *globs* are those translated so far.
    """
    patterns = ((place, getattr(rule, name)) for place, name in enumerate(PATTERN_FIELDS))
    return tuple((place, _fits(pattern, globs)) for place, pattern in patterns if pattern != "*")


def _fits(pattern: str, globs: dict[str, re.Pattern[str]]) -> Callable[[str], object]:
    if is_exact(pattern):
        return pattern.__eq__
    if pattern not in globs:
        globs[pattern] = _glob(pattern)
    return globs[pattern].fullmatch


def names_discovered(rule: Rule) -> bool:
    """Return whether *rule* may allow a discovered tool: it names the tool, or its toolset on purpose."""
    return is_exact(rule.tool) or (rule.discovered and _TOOLSET_HEAD.match(rule.tool) is not None)


def _for_discovered(found: tuple[Rule, ...]) -> tuple[Rule, ...]:
    kept = tuple(rule for rule in found if rule.effect != "allow" or names_discovered(rule))
    opened = any(rule.effect != "deny" and names_discovered(rule) for rule in kept)
    return kept if opened else tuple(rule for rule in kept if rule.effect == "deny")


def is_exact(pattern: str) -> bool:
    """Return whether *pattern* has no sign that stands for others."""
    return not any(sign in pattern for sign in "*?[")


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def glob_matches(pattern: str, value: str) -> bool:
    """Return whether the glob *pattern* matches *value*, case-sensitively."""
    return name_matches(pattern, value)
