"""The same cases against the deciding code alone: no platform, no ledger, the same answers.

What it says of a call has to be what the running platform says: `bench/prompt_attacks.py --quick` compares the two.
"""

from uuid import UUID

from attacks import dojo
from attacks.cases import Case
from attacks.platform_runs import Made, Played
from towpath_contracts.canonical import canonical_json
from towpath_contracts.tools.calls import EffectClass
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.text_readers import CallDeclaration
from towpath_tas.core.provenance.value_leaves import ValueSource
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion


def authorizer(policy: str) -> ProjectAuthorizer:
    """Return what decides by these rules about the tools of all suites; SystemExit for rules with problems."""
    read = read_policy_text(policy).read
    if read.problems:
        raise SystemExit("\n".join(str(problem.detail) for problem in read.problems))
    specs = [spec for name in dojo.SUITES for spec in dojo.specs(name).values()]
    versions = [ToolVersion(spec=spec, version=1, digest=spec.name) for spec in specs]
    return ProjectAuthorizer(
        Matrix(read.rules, compile_condition, 1), ProjectToolRegistry(versions, matches, 1), compile_grant
    )


def in_process(case: Case, law: ProjectAuthorizer, *, grants: bool) -> Played:
    """Play a case: each call of its script is decided, and acts if it may; no run ends early."""
    known, environment = RunProvenance(), dojo.environment(case.suite, case.user_task, case.text)
    known.add_task(case.prompt, {dojo.CASE: case.key})
    grant = ([{"tool": f"{case.suite}.{tool}"} for tool in case.grant],) if grants else ()
    made = []
    for step, call in enumerate(case.script):
        spec, args = dojo.specs(case.suite)[call.tool], {**call.args, dojo.CASE: case.key}
        query = AuthorizationQuery(
            run_id=UUID(int=1),
            project="default",
            principal=CallPrincipal(case.suite, "agent", "", "anonymous", "default"),
            step=step,
            tool=spec.name,
            operation=spec.operation,
            args=args,
            args_text=canonical_json(args),
            labels={},
            grants=tuple(tuple(one) for one in grant),
        )
        decision = law.authorize(query)
        if decision.needs_origin:
            decision = law.authorize(law.with_origin(query, known))
        if decision.effect != "allow":
            violation = decision.denial.violation_type if decision.denial else ""
            made.append(Made(call, "denied", decision.rule or violation))
            continue
        result, error = dojo.play(case.suite, environment, call.tool, call.args)
        made.append(Made(call, "succeeded" if error is None else "failed", decision.rule or ""))
        source = ValueSource(spec.name, step)
        known.add_arguments(args, reads=spec.effect_class is EffectClass.PURE)
        if error is not None:
            known.add_untrusted(source, error)
        readers = CallDeclaration(spec.readers, args)
        known.add_output(source, result, trusted=spec.trusted_output, fields=spec.trusted_fields, readers=readers)
    return Played(case, "completed", "", tuple(made))
