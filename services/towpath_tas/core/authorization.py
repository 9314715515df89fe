"""May this call happen? Registry, arguments, the task's grant and the matrix, in this order.

The right to a call is the conjunction of all of them, and every answer that is not a clear yes is a no. The answer
depends on nothing but what is given here, so the same question under the same versions has the same answer.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import Alternative, Denial, Specialist, ToolRequest
from towpath_contracts.tools.grants import Grants, grant_chain
from towpath_tas.core.calls.call import Call
from towpath_tas.core.denial_alternatives import (
    HELPED_BY_OTHERS,
    Crew,
    Refused,
    alternatives,
    escalation,
    specialists,
    with_rungs,
)
from towpath_tas.core.denials import (
    Violation,
    allowed_tools,
    denied_arguments,
    denied_by_matrix,
    denied_drifted,
    denied_grant,
    denied_unknown,
)
from towpath_tas.core.policy.conditions import Compiler, Met, Scene
from towpath_tas.core.policy.grants import granted
from towpath_tas.core.policy.matrix import (
    MAX_REMEMBERED,
    NOTHING_USED,
    Effect,
    Matrix,
    OnExpiry,
    Rate,
    Rule,
    Used,
    Verdict,
    Who,
)
from towpath_tas.core.provenance.provenance import Knowledge, Origin
from towpath_tas.core.provenance.provenance_messages import matters, members, unread, with_values
from towpath_tas.core.switches import Switches
from towpath_tas.core.tools.registry import Registry, ToolVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call as it is put to the matrix. `args_text` is the canonical JSON of `args`.

    `origin` is what conditions see of where the values come from; `traced` is it in full, where that was looked up now.
    """

    run_id: UUID | None
    project: str
    who: Who
    step: int
    tool: str
    operation: str
    args: Mapping[str, Any]
    args_text: str
    labels: Mapping[str, str]
    grants: Grants = ()
    spent_usd: float | None = None
    origin: JsonObject | None = None
    traced: Origin | None = None
    snapshot_digest: str = ""

    def context(self) -> dict[str, Any]:
        """What conditions see."""
        return {
            "args": self.args,
            "run": {
                "id": str(self.run_id or ""),
                "project": self.project,
                "network": self.who.network,
                "step": self.step,
                "labels": dict(self.labels),
            },
            "agent": {"key": self.who.agent, "type": self.who.agent_type},
            "caller": self.who.caller,
            "origin": self.origin or {},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The answer. `basis` are the deciding rules as (name, digest): what an approval is bound to.

    `wants_origin`: it was given without knowing where the values come from, and that matters; ask with `Law.traced`.

    How long an approval may wait, how many people it takes and what follows its expiry is the strictest that any of
    them says.
    """

    effect: Effect
    tool: ToolVersion | None
    policy_version: int
    rule: str | None = None
    reason: str = ""
    basis: tuple[tuple[str, str], ...] = ()
    counted: tuple[str, ...] = ()
    rated: tuple[Rate, ...] = ()
    expires_s: int = 0
    origin: Origin | None = None
    wants_origin: bool = False
    quorum: int = 1
    on_expiry: OnExpiry = "deny"
    denial: Denial | None = None


Authorize = Callable[[Asked], Ruling]
GRANT = "grant "
"""How the name begins under which a grant's conditions stand beside those of rules, whose names have no space."""


class Law:
    """Everything that decides in one project at one moment: the matrix and the registry."""

    def __init__(self, matrix: Matrix, registry: Registry, compile_grant: Compiler) -> None:
        self.matrix = matrix
        self.registry = registry
        self.compile_grant = compile_grant
        self.switches = Switches()
        """What is paused; it decides only when a call goes out."""
        self.shadow: Matrix | None = None
        self.crews: Mapping[str, Crew] = {}
        """The agents of snapshots by digest, as far as they are known; denials name them."""
        self._alternatives: dict[tuple[Who, str, str, bool], tuple[Alternative, ...]] = {}

    def traced(self, asked: Asked, known: Knowledge) -> Asked:
        """Return *asked* with where its values come from, by what is *known* of its run."""
        tool = self.registry.tools.get(asked.tool)
        if tool is None:
            return asked
        found = known.origin(tool.spec, asked.args)
        return dataclasses.replace(asked, origin=found.context(), traced=found)

    def rule(
        self, asked: Asked, used: Mapping[str, int] | None = None, rates: Mapping[str, int] | None = None
    ) -> Ruling:
        """Answer *asked*; *used* counts the run's earlier calls by the name of a limited rule, *rates* those of now."""
        tool = self.registry.tools.get(asked.tool)
        naming = {} if tool is None else self._naming_origin(asked, tool.spec.operation)
        stated = asked.origin is not None
        if tool is not None and naming and not stated:
            asked = dataclasses.replace(asked, origin=unread(tool.spec))
        ruling = self._rule(asked, used, rates)
        if tool is None:
            return ruling
        if asked.traced is None:
            wanted = ruling.effect == "require_approval" or matters(naming.values(), tool.spec)
            if wanted and ruling.effect != "require_approval" and not stated:
                scene = Scene(asked.context())
                wanted = any(self._reads(name, when, scene) for name, when in naming.items())
            return dataclasses.replace(ruling, wants_origin=True) if wanted else ruling
        denial = ruling.denial
        if denial is not None and (denial.rule in naming or (denial.rule is None and naming)):
            denial = with_values(denial, asked.traced, tool.spec.system_params)
        return dataclasses.replace(ruling, origin=asked.traced, denial=denial)

    def _reads(self, name: str, when: str, scene: Scene) -> bool:
        """Say whether a condition can't be answered without reading: `origin.writes && …` can, for who only reads."""
        return name.startswith(GRANT) or self.matrix.met(when, scene) is Met.UNCLEAR

    def _naming_origin(self, asked: Asked, operation: str) -> dict[str, str]:
        """Return the conditions that ask where values come from, by their rules' names; those of grants have places."""
        found = {}
        for matrix in (self.matrix,) if self.shadow is None else (self.matrix, self.shadow):
            if matrix.names_origin:
                near = matrix.candidates(asked.who, asked.tool, operation)
                found.update({rule.name: rule.when for rule in near if rule.when is not None and members(rule.when)})
        for place, grant in enumerate(asked.grants):
            when = " || ".join(str(entry["when"]) for entry in grant if entry.get("when") is not None)
            if members(when):
                found[f"{GRANT}{place}"] = when
        return found

    def _rule(self, asked: Asked, used: Mapping[str, int] | None, rates: Mapping[str, int] | None) -> Ruling:
        tool = self.registry.tools.get(asked.tool)
        if tool is None:
            return self._unknown(asked)
        refused = self._refused_before(asked, tool)
        if refused is not None:
            return self._no(asked, refused, tool)
        context = Scene(asked.context())
        if not granted(asked.grants, asked.tool, tool.spec.operation, context, self.compile_grant):
            return self._no(asked, denied_grant(asked.tool, tool.spec.operation), tool)
        drawn = _used(asked, used, rates)
        found = tool.spec.discovered
        verdict = self.matrix.decide(asked.who, asked.tool, tool.spec.operation, context, drawn, discovered=found)
        if verdict.effect == "deny":
            return self._no_by_rule(asked, tool, verdict, drawn)
        named = verdict.rule
        return Ruling(
            effect=verdict.effect,
            tool=tool,
            policy_version=self.matrix.version,
            rule=named.name if named else None,
            reason=named.note if named else "",
            basis=tuple((rule.name, rule.digest) for rule in verdict.deciding),
            counted=tuple(rule.name for rule in verdict.counted),
            rated=verdict.rated,
            **_strictest(verdict.deciding),
        )

    def _refused_before(self, asked: Asked, tool: ToolVersion) -> Denial | None:
        if tool.held_by:
            return denied_drifted(asked.tool, tool.held_by)
        if asked.operation not in {"call", tool.spec.operation}:
            return Denial(
                violation_type=Violation.OPERATION_UNKNOWN,
                reason=f"{asked.tool} has no operation {asked.operation}; it has {tool.spec.operation}",
            )
        try:
            check = self.registry.arguments(tool)
            problems = check.problems(asked.args, asked.args_text, tool.spec.system_params)
        except ValueError as error:
            problems = [f"the tool's schema can't be used: {error}"]
        return denied_arguments(asked.tool, problems) if problems else None

    def _unknown(self, asked: Asked) -> Ruling:
        others = self._others(asked)
        allowed = tuple(one.tool for one in others)
        return self._no(asked, denied_unknown(asked.tool, tuple(self.registry.tools), allowed), None, others=others)

    def _no_by_rule(self, asked: Asked, tool: ToolVersion, verdict: Verdict, used: Used) -> Ruling:
        others = self._others(asked)
        denial = denied_by_matrix(verdict, asked.tool, tool.spec.operation, tuple(one.tool for one in others))
        return self._no(asked, denial, tool, verdict, used, others=others)

    def _others(self, asked: Asked) -> tuple[Alternative, ...]:
        """Return what the agent may do instead, nearest first. Remembered: who is denied is denied again."""
        crew = self._crew(asked)
        key = (asked.who, asked.tool, asked.snapshot_digest, bool(crew))
        kept = not asked.grants and not self.matrix.names_run
        found = self._alternatives.get(key) if kept else None
        if found is None:
            found = self._find_others(asked, crew)
            if kept:
                if len(self._alternatives) >= MAX_REMEMBERED:
                    self._alternatives.clear()
                self._alternatives[key] = found
        return found

    def _find_others(self, asked: Asked, crew: Crew) -> tuple[Alternative, ...]:
        own = crew.get(asked.who.agent)
        known = self.registry.tools
        names = known if own is None else sorted(own.tools)
        near = [tool.spec for name in names if (tool := known.get(name)) is not None]
        open_ones = [spec for spec in near if not known[spec.name].held_by]
        ranked = allowed_tools(self.matrix, asked.who, open_ones, asked.grants, asked.tool)
        specs = [known[name].spec for name in ranked]
        return alternatives(self._refused(asked), specs, self.matrix, self.compile_grant, crew)

    def _crew(self, asked: Asked) -> Crew:
        return self.crews.get(asked.snapshot_digest, {})

    @staticmethod
    def _refused(asked: Asked) -> Refused:
        return Refused(who=asked.who, grants=asked.grants, context=asked.context())

    def _no(
        self,
        asked: Asked,
        denial: Denial,
        tool: ToolVersion | None,
        verdict: Verdict | None = None,
        used: Used = NOTHING_USED,
        *,
        others: tuple[Alternative, ...] | None = None,
    ) -> Ruling:
        """Refuse, with whom and what may help; *others* where that was looked up already."""
        agents: tuple[Specialist, ...] = ()
        if denial.violation_type not in HELPED_BY_OTHERS:
            others = ()
        else:
            others, crew = self._others(asked) if others is None else others, self._crew(asked)
            if tool is not None and crew and not tool.held_by:
                agents = specialists(self._refused(asked), tool.spec, self.matrix, self.compile_grant, crew, used)
        denial = with_rungs(denial, others, agents, escalation(denial.violation_type, verdict))
        return Ruling(
            effect="deny",
            tool=tool,
            policy_version=self.matrix.version,
            rule=denial.rule,
            reason=denial.reason,
            counted=() if verdict is None else tuple(rule.name for rule in verdict.counted),
            denial=denial,
        )


def _used(asked: Asked, calls: Mapping[str, int] | None, rates: Mapping[str, int] | None) -> Used:
    return Used(calls=calls or {}, rates=rates or {}, spent_usd=asked.spent_usd)


def _strictest(deciding: Sequence[Rule]) -> dict[str, Any]:
    return {
        "expires_s": min((rule.expires_s for rule in deciding), default=0),
        "quorum": max((rule.quorum for rule in deciding), default=1),
        "on_expiry": "escalate" if deciding and all(rule.on_expiry == "escalate" for rule in deciding) else "deny",
    }


def asked_in(request: ToolRequest, args_text: str) -> Asked:
    """Return the question that a request puts."""
    return Asked(
        run_id=request.run_id,
        project=request.project,
        who=Who(request.network, request.agent_key, request.agent_type, request.caller, request.project),
        step=request.step,
        tool=request.tool,
        operation=request.operation,
        args=request.args,
        args_text=args_text,
        labels=request.labels,
        spent_usd=request.spent_usd,
        grants=grant_chain(request.grants, request.grant),
        snapshot_digest=request.snapshot_digest,
    )


def as_edited(asked: Asked, call: Call) -> Asked:
    """Return *asked* with the arguments that a person has put in the place of those which the run asks for."""
    return replace(asked, args=json.loads(call.args), args_text=call.args)


def asked_again(call: Call) -> Asked:
    """Return the question that a stored call once put, to put it again."""
    context = json.loads(call.context)
    return Asked(
        run_id=call.run_id,
        project=call.project,
        who=Who(call.network, call.agent_key, call.agent_type, call.caller, call.project),
        step=call.step,
        tool=call.tool,
        operation="call",
        args=json.loads(call.args),
        args_text=call.args,
        labels=context.get("labels", {}),
        spent_usd=context.get("spent_usd"),
        origin=context.get("origin"),
        grants=grant_chain(context.get("grants", ()), context.get("grant")),
        snapshot_digest=call.snapshot_digest,
    )
