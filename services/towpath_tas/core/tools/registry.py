"""The tools of a project, and what becomes of a tool that a worker proposes.

Nobody makes a tool less strict by proposing it. A weaker effect class, trusted output, a new report, a lost `sensitive`
or `system_params`, other readers of its output, a lower cost, a schema that takes what the old one refused, new words
for a tool that writes, or another owner waits for a policy admin; everything that only adds or tightens is accepted at
once. So does a new tool of a known toolset that only the pattern of an older rule opens, and one whose name begins as
those of another toolset. What a person has refused stays refused until a person accepts it. A discovered tool whose
server has redefined it waits too, and holds the calls meanwhile: the accepted one does not exist any more.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Literal, TypeVar

from towpath_contracts.canonical import digest
from towpath_contracts.networks.child_tools import DELEGATE, platform_tool
from towpath_contracts.text import truncate
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_contracts.tools.internal_tools import PLATFORM_OWNER
from towpath_contracts.tools.readers import OutputReaders
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.tools.arguments import ArgumentChecker, PatternMatcher
from towpath_tas.core.tools.schema_changes import loosened, schema_texts, vouched_values

_BY_PROMISE = (EffectClass.PURE, EffectClass.IDEMPOTENT, EffectClass.RECONCILABLE, EffectClass.IRREVERSIBLE)
"""From what promises most to what promises nothing."""


Found = TypeVar("Found")

PLATFORM_TOOL_VERSION = 2
"""Version of the platform's own tools: increment it with any change of them, so that older approvals become void."""

LONGER = 2
"""A timeout that grows by more is looked at by a person: calls would hold their places for longer."""

LONG_MS = 60_000
"""So is one that grows beyond this, by however little: step by step it would grow to an hour."""

MAX_TOLD = 5
"""Places of a schema that are told of one proposal."""

MAX_DOUBT_CHARS = 300
"""Of one doubt: what it names may be long, and is shown whole where the two versions are compared."""

_FIRST_NAME = re.compile(r"[.\[]")
"""What ends the first name of a sink's path."""

_LATER_FIELDS: Mapping[str, object] = {
    "has_probe": False,
    "discovered": False,
    "sinks": None,
    "hazards": [],
    "trusted_fields": [],
    "definition": "",
    "cost_usd": 0.0,
    "reports": "",
    "internal": False,
    "workspace": "",
    "readers": [],
}
"""Fields of a spec that later releases added, with their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVersion:
    """A stored version of a tool. `held_by` is the version that its server offers now and nobody has accepted.

    `doubt` is why it would have waited for a person on a platform that does not trust who starts its workers.
    """

    spec: ToolSpec
    version: int
    digest: str
    owner: str = ""
    held_by: int = 0
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRegistrationDecision:
    """What becomes of a proposal: stored as `accepted` or `pending`, or nothing new (`unchanged`).

    `holds`: calls of the version before wait for the decision too.
    """

    status: Literal["accepted", "unchanged", "pending"]
    reason: str = ""
    holds: bool = False


class WorkerTrust(Enum):
    """Whose doubtful proposals are accepted, with the doubt noted."""

    ALWAYS = "always"
    """Of every worker: it is started by the person whose platform it is."""
    FIRST = "first"
    """Of a toolset that is new, with what is its own: later on, keys tell persons from workers."""
    NEVER = "never"

    @classmethod
    def on(cls, *, embedded: bool, keys: bool) -> "WorkerTrust":
        """Return whom a platform trusts: an *embedded* one has a person, and with *keys* perhaps several."""
        if not embedded:
            return cls.NEVER
        return cls.FIRST if keys else cls.ALWAYS

    def covers(self, *, toolset_known: bool, foreign: bool = False) -> bool:
        """Return whether a worker of a toolset is trusted; *foreign*: with a tool, or a name, of another toolset."""
        return self is WorkerTrust.ALWAYS or (self is WorkerTrust.FIRST and not toolset_known and not foreign)


def platform_tool_version(name: str) -> ToolVersion | None:
    """Return the platform's own tool of that name; None where there is none."""
    spec = platform_tool(name)
    if spec is None:
        return None
    return ToolVersion(spec=spec, version=PLATFORM_TOOL_VERSION, digest=spec_digest(spec), owner=PLATFORM_OWNER)


class ToolMap(dict[str, Found]):
    """Values by tool name. Delegates of a team, which nobody registers, are looked up by their kind."""

    def __init__(self, found: Mapping[str, Found], delegate: Callable[[ToolVersion], Found]) -> None:
        """*found* are the values of registered tools; *delegate* computes that of one of the platform's own."""
        super().__init__(found)
        self._delegate = delegate

    def __missing__(self, name: str) -> Found:
        tool = platform_tool_version(name) if name.startswith(DELEGATE) else None
        if tool is None:
            raise KeyError(name)
        return self._delegate(tool)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of *name*, also of a delegate; else *default*."""
        try:
            return self[name]
        except KeyError:
            return default


class ProjectToolRegistry:
    """The accepted tools of one project, in one version of the registry."""

    def __init__(self, tools: Iterable[ToolVersion], matches: PatternMatcher, version: int = 0) -> None:
        """Schemas are compiled when they are first needed."""
        self.tools: Mapping[str, ToolVersion] = ToolMap({tool.spec.name: tool for tool in tools}, lambda own: own)
        self.version = version
        self._matches = matches
        self._arguments: dict[str, ArgumentChecker | ValueError] = {}

    def specs(self) -> Mapping[str, ToolSpec]:
        return ToolMap({name: tool.spec for name, tool in self.tools.items()}, lambda own: own.spec)

    def arguments(self, tool: ToolVersion) -> ArgumentChecker:
        """Return the check of *tool*'s arguments; raises ValueError for a schema that can't be used."""
        found = self._arguments.get(tool.spec.name)
        if found is None:
            try:
                found = ArgumentChecker(tool.spec.parameters, self._matches)
            except ValueError as error:
                found = error
            self._arguments[tool.spec.name] = found
        if isinstance(found, ValueError):
            raise found
        return found


def spec_digest(spec: ToolSpec) -> str:
    """Return the digest of a spec; fields that later releases added count only if set."""
    fields = spec.model_dump(mode="json")
    return digest(
        {name: value for name, value in fields.items() if name not in _LATER_FIELDS or value != _LATER_FIELDS[name]}
    )


def effective_class(spec: ToolSpec) -> EffectClass:
    """Return the effect class that applies: without its probe, a `reconcilable` tool counts as `irreversible`."""
    unprobed = spec.effect_class is EffectClass.RECONCILABLE and not spec.has_probe
    return EffectClass.IRREVERSIBLE if unprobed else spec.effect_class


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecComparison:
    """The digest of a proposed spec, and what it lets the model or the tool do that the current version does not."""

    new_digest: str
    loosened: tuple[str, ...] = ()


def compare_specs(spec: ToolSpec, current: ToolVersion | None) -> SpecComparison:
    """Compare *spec* with the *current* version; this reads both schemas, which may be long."""
    new_digest = spec_digest(spec)
    if current is None or current.digest == new_digest:
        return SpecComparison(new_digest=new_digest)
    found = (truncate(one, MAX_DOUBT_CHARS) for one in _loosened(spec, current.spec))  # it is remembered
    return SpecComparison(new_digest=new_digest, loosened=tuple(found))


def judge_proposal(
    spec: ToolSpec,
    owner: str,
    current: ToolVersion | None,
    *,
    trusting: bool,
    compared: SpecComparison | None = None,
    opened_by: Rule | None = None,
    name_taken_by: str = "",
    refused: str = "",
) -> ToolRegistrationDecision:
    """Return what becomes of *spec*, proposed by *owner*, compared with the *current* version.

    *trusting*: whoever starts a worker is the policy admin, but did not change what a server defines. *opened_by* is
    the rule whose pattern alone opens a new tool of a known toolset, *name_taken_by* the toolset whose names begin as
    that of a new tool. *refused* is why a person did not accept this very spec. *compared* is what
    `compare_specs` has found, where that was done before.
    """
    found = compare_specs(spec, current) if compared is None else compared
    if current is not None and current.digest == found.new_digest and current.owner == owner:
        return ToolRegistrationDecision(status="unchanged")
    doubts = _doubts(spec, owner, current, found)
    if refused:
        doubts.insert(0, refused)
    if name_taken_by:
        doubts.append(f"names that begin with {name_head(spec.name)}. are those of toolset {name_taken_by}")
    if opened_by is not None:
        doubts.append(
            f"no rule names it, and rule {opened_by.name}, whose pattern {opened_by.tool} opens it, is older than it"
        )
    doubts = [truncate(doubt, MAX_DOUBT_CHARS) for doubt in doubts]
    if has_drifted(spec, current):
        reason = "; ".join(["its server defines it anew", *doubts])
        return ToolRegistrationDecision(status="pending", reason=reason, holds=True)
    if refused or (doubts and not trusting):
        return ToolRegistrationDecision(status="pending", reason="; ".join(doubts))
    return ToolRegistrationDecision(status="accepted", reason="; ".join(doubts))


def name_head(name: str) -> str:
    """Return what stands before the first dot of a tool's name; nothing where there is no dot."""
    head, dot, _ = name.partition(".")
    return head if dot else ""


def foreign_toolset(spec: ToolSpec, toolsets_by_head: Mapping[str, Iterable[str]]) -> str:
    """Return another toolset that has names which begin as that of *spec*, if its own toolset has none."""
    taken = sorted(toolsets_by_head.get(name_head(spec.name), ()))
    return "" if not taken or spec.toolset in taken else taken[0]


def has_drifted(spec: ToolSpec, current: ToolVersion | None) -> bool:
    """Return whether *spec* is a discovered tool that differs from what was accepted under its name."""
    return spec.discovered and current is not None and spec.definition != current.spec.definition


def _doubts(spec: ToolSpec, owner: str, current: ToolVersion | None, compared: SpecComparison) -> list[str]:
    if current is None:
        return ["trusted output is claimed"] if spec.trusted_output or spec.trusted_fields else []
    old = current.spec
    doubts = []
    if _BY_PROMISE.index(effective_class(spec)) < _BY_PROMISE.index(effective_class(old)):
        doubts.append(f"the effect class would weaken from {effective_class(old)} to {effective_class(spec)}")
    if _claims_trust(spec, old):
        doubts.append("trusted output is claimed")
    doubts.extend(_unguarded(spec, old))
    doubts.extend(_other_readers(spec, old))
    if old.sensitive and not spec.sensitive:
        doubts.append("it would no longer count as sensitive")
    if spec.reports and spec.reports != old.reports:
        doubts.append(f"its results would count as {spec.reports}: goals are measured by them")
    if old.discovered and not spec.discovered:
        doubts.append("it would no longer count as discovered")
    doubts.extend(compared.loosened)
    if spec.operation != old.operation:
        doubts.append(f"the operation would change from {old.operation} to {spec.operation}")
    if owner != current.owner:
        doubts.append(f"the owner would change from {current.owner} to {owner}")
    if spec.toolset != old.toolset:
        doubts.append(f"the toolset would change from {old.toolset} to {spec.toolset}")
    return doubts


def _claims_trust(spec: ToolSpec, old: ToolSpec) -> bool:
    """Return whether more would be a record; of a whole output a field that it names is one also where it repeats."""
    named = not set(spec.trusted_fields) <= set(old.trusted_fields)
    return named or (spec.trusted_output and not old.trusted_output)


def _unguarded(spec: ToolSpec, old: ToolSpec) -> list[str]:
    """Return which arguments would no longer be sinks, and which hazards would be lost."""
    doubts = []
    if spec.sinks is None and old.sinks and spec.effect_class is EffectClass.PURE:  # else all would count
        doubts.append("no argument would count as a sink")
    if spec.sinks is not None and (old.sinks is None or not set(old.sinks) <= set(spec.sinks)):
        doubts.append(f"only {', '.join(spec.sinks) or 'no argument'} would count as a sink")
    lost = sorted(set(old.hazards) - set(spec.hazards))
    if lost:
        doubts.append(f"it would no longer be known to {', '.join(lost)}")
    return doubts


def _other_readers(spec: ToolSpec, old: ToolSpec) -> list[str]:
    """Return who else might know its output: fewer readers of the same parts are the only change that is harmless."""
    fewer = {part.of for part in spec.readers} == {part.of for part in old.readers} and all(
        before.covers(now) for before in old.readers for now in spec.readers if before.of == now.of
    )
    if fewer or old.readers == (OutputReaders(anybody=True),):
        return []
    now, before = ("; ".join(map(str, one.readers)) or "undeclared" for one in (spec, old))
    return [f"the readers of its output would change from {before} to {now}"]


def _loosened(spec: ToolSpec, old: ToolSpec) -> list[str]:
    """Return what the model or the tool could do that it could not do before, and what people would misread."""
    doubts = []
    lost = sorted(set(old.system_params) - set(spec.system_params))
    if lost:
        doubts.append(f"the system would no longer fill in {', '.join(lost)}")
    if spec.cost_usd < old.cost_usd:
        doubts.append(f"its cost would fall from US$ {old.cost_usd:g} to {spec.cost_usd:g}")
    doubts.extend(f"{found} (arguments)" for found in islice(loosened(old.parameters, spec.parameters), MAX_TOLD))
    doubts.extend(islice(_newly_vouched(spec, old), MAX_TOLD))
    if effective_class(old) is not EffectClass.PURE:
        doubts.extend(f"its {text} would change" for text in ("summary", "description") if _differs(text, spec, old))
        if not set(schema_texts(spec.parameters)) <= set(schema_texts(old.parameters)):
            doubts.append("what its schema says of the arguments would change")
    if spec.timeout_ms > min(LONGER * old.timeout_ms, max(LONG_MS, old.timeout_ms)):
        doubts.append(f"its timeout would grow from {old.timeout_ms} to {spec.timeout_ms} ms")
    if spec.workspace not in ("", old.workspace):
        doubts.append(f"it would get the files of the run: workspace {spec.workspace}")
    return doubts


def _newly_vouched(spec: ToolSpec, old: ToolSpec) -> Iterator[str]:
    """Yield values that the new schema of a sink lists or gives, and the old one did not: conditions trust them.

    A definition (no path) may be about any argument.
    """
    known = set(vouched_values(old.parameters))
    sinks = None if spec.sinks is None else {_FIRST_NAME.split(sink, maxsplit=1)[0] for sink in spec.sinks}
    for path, value in vouched_values(spec.parameters):
        is_sink = sinks is None or not path or "*" in sinks or path[0].partition(".")[0] in sinks
        if is_sink and (path, value) not in known:
            yield f"{value[:100]} would be a value that {'.'.join(path) or 'the schema'} itself gives"


def _differs(text: str, spec: ToolSpec, old: ToolSpec) -> bool:
    return bool(getattr(spec, text) != getattr(old, text))
