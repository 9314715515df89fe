"""What a harness says of a refusal: the platform's own words, but for cures that a test can't take.

A test has no command line, no worker and no second platform; what it can do instead is a call of the harness.
"""

from collections.abc import Sequence

from towpath.declared_places import DeclaredPlace
from towpath.errors import RefusedError, RunTimeoutError, TowpathError, error_from
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.views import RunView

OR_CORRECT = ", or correct the file at the line that is named"
"""Of a network's file: the names in it may be wrong as well."""

GIVE_MODEL = (
    "the model scripted:task plays a script, and none was given: harness(…, model=script([…])), or model=FUNCTION, "
    "which says what comes next"
)

REMEDIES = {
    "answer_missing": "result.events has its log.",
    "gate_not_found": "Each gate is settled once; those that wait are open_gates().",
    "gate_settled": "Each gate is settled once; those that wait are open_gates().",
    "network_not_found": "A harness has the network that it was opened with.",
    "requester_may_not_approve": "The harness submits as tester: leave by= out, or name somebody else.",
    "revisions_used_up": "Approve it as it is, gate.approve(), or gate.deny(reason).",
    "run_failed": "result.events has its log.",
    "run_not_found": "A harness knows the runs that it began itself.",
    "verdict_invalid": "Say one of those in detail: gate.resolve(VERDICT, reason).",
    "version_not_found": "A harness has one version of its network: leave version= out.",
}
"""In the place of those that name commands of a platform, by the code of the problem."""


def problem_in_test(found: Problem) -> Problem:
    """Return *found* with what a test can do about it."""
    return found.model_copy(update={"remedy": REMEDIES.get(found.code, found.remedy)})


def error_in_test(found: Problem) -> TowpathError:
    """Return *found* as the exception whose class names the reaction, with what a test can do about it."""
    return error_from(problem_in_test(found))


def with_tools_to_give(refused: RefusedError, lacking: Sequence[str], otherwise: str = "") -> RefusedError:
    """Return the refusal of a network; where tools alone are missing it says how a harness is given them.

    *lacking* are the names of the functions, where the network was written with them; *otherwise* what else may help.
    """
    if any(one.code != "tool_unknown" for one in refused.problem.errors):
        return refused
    given = f"[{', '.join(lacking)}]" if lacking else "[…], with the functions, their module or its file"
    remedy = f"Give the harness the tools that it lacks: harness(…, tools={given}){otherwise}."
    return RefusedError(refused.problem.model_copy(update={"remedy": remedy}))


def placed_in_program(refused: RefusedError, place: DeclaredPlace | None) -> RefusedError:
    """Return the refusal of a network that a program declares behind the line that opened the harness."""
    if place is None:
        return refused
    return RefusedError(refused.problem.model_copy(update={"detail": f"{place}: {refused.problem.detail}"}))


def timeout_in_test(view: RunView, limit_s: float, *, gates: bool, awaited: bool) -> RunTimeoutError:
    """Return the error of a run that did not end within *limit_s*: what it waits for, and what lets it go on.

    *gates* says whether any is open; in a harness with asyncio what is called is *awaited*.
    """
    says = "await " if awaited else ""
    waits = "; ".join(view.waits) or "nothing that anybody could settle"
    detail = f"after {limit_s:g} s the run is {view.status} and waits for: {waits}"
    remedy = (
        f"Settle the gate first: gate = {says}h.next_gate(), then {says}gate.approve() or {says}gate.deny(reason)."
        if gates
        else f"Wait longer, {says}run.result('60s'), or look at what model= and the tools do meanwhile."
    )
    return RunTimeoutError(problem("timeout", detail, run_id=str(view.run_id), remedy=remedy))
