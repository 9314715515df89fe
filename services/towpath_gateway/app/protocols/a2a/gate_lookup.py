"""Finds what a run waits for, and says a person's word there, by the rules of all words.

Who may decide is told by what a key may do. The tool-access service alone decides whose word counts: who submitted a
run may be refused its approval, and can deny it.
"""

from collections.abc import Collection, Mapping
from uuid import UUID

from towpath_console.caller import Caller
from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import STANDING_STATUSES
from towpath_contracts.runs.views import GatePage, GateView, ListGates, RunView
from towpath_gateway.app.asking_stream import MAX_ASKED
from towpath_gateway.app.dependencies import GatewayDependencies, require_scope
from towpath_gateway.app.gate_votes import say_word
from towpath_gateway.app.protocols.a2a.call_messages import A2aGateWord
from towpath_gateway.core.a2a_tasks import GateQuestion
from towpath_gateway.core.api_keys import Principal, non_approval_roles


async def questions_of(
    dependencies: GatewayDependencies, principal: Principal, view: RunView, decided: Collection[UUID] = ()
) -> list[GateQuestion]:
    """Return what a run waits for, as `open_questions` does; nothing of one that does not stand."""
    if view.status not in STANDING_STATUSES:
        return []
    return await open_questions(dependencies, principal, view.run_id, decided)


async def open_questions(
    dependencies: GatewayDependencies, principal: Principal, run_id: UUID, decided: Collection[UUID]
) -> list[GateQuestion]:
    """Return what waits in a run; without those that need one word alone and have it, by *decided*.

    What waits in a run below is told to a key that may see gates. A task and its stream say the same.
    """
    found: list[GateView] = []
    if "gates:read" in principal.scopes:
        found = await _listed(dependencies, principal, root_run_id=run_id)
    if not found:
        found = await _listed(dependencies, principal, run_id=run_id)
    open_gates = [gate for gate in found if gate.quorum > 1 or gate.gate_id not in decided]
    return [GateQuestion(gate=gate, may_decide=may_decide(principal, gate)) for gate in open_gates]


async def _listed(
    dependencies: GatewayDependencies,
    principal: Principal,
    *,
    run_id: UUID | None = None,
    root_run_id: UUID | None = None,
) -> list[GateView]:
    request = ListGates(
        project=principal.project, run_id=run_id, root_run_id=root_run_id, paused=False, limit=MAX_ASKED
    )
    page: GatePage = await dependencies.platform.request(rpc.LIST_GATES, request)
    return list(page.gates)


def may_decide(principal: Principal, gate: GateView) -> bool:
    """Return whether the key may speak at *gate*, and has not spoken there."""
    caller = Caller(
        name=principal.caller,
        scopes=principal.scopes,
        roles=principal.roles,
        gate_roles=non_approval_roles(principal),
    )
    has_spoken = {vote.actor for vote in gate.votes} & {principal.actor, principal.caller}
    return not has_spoken and not caller.lacking_at(gate.model_dump(mode="json"))


async def say(
    dependencies: GatewayDependencies,
    principal: Principal,
    view: RunView,
    words: Collection[A2aGateWord],
    questions: Collection[GateQuestion],
) -> frozenset[UUID]:
    """Say *words* at the gates of a run and return where they count; one that comes too late does not.

    Raises ProblemError where a word is refused; before any is said where it is of no gate of this task, or does not
    say what it decides: one that names neither gate nor call would count at the next gate, if it were sent again.
    """
    require_scope(principal, "gates:resolve")
    known = {one.gate.gate_id: one.gate for one in questions}
    placed: dict[UUID, A2aGateWord] = {}
    late: set[UUID] = set()
    for word in words:
        gate_id = named_gate(word, known)
        if gate_id in placed:
            raise ProblemError(problem("request_invalid", f"one message says one word at the gate {gate_id}"))
        placed[gate_id] = word
        gate = known.get(gate_id) or await _gate_of_task(dependencies, principal, view, gate_id)
        if gate.status == "pending":
            check_word(word, gate)
        else:
            late.add(gate_id)
    decided: set[UUID] = set()
    for gate_id, word in placed.items():
        try:
            if gate_id not in late and await say_word(dependencies, principal, word.at(gate_id)):
                decided.add(gate_id)
        except ProblemError as error:
            raise _after_others(error, decided) from error
    return frozenset(decided)


def named_gate(word: A2aGateWord, known: Mapping[UUID, GateView]) -> UUID:
    """Return the gate of *word*; raises ProblemError with those that wait where it names none."""
    if word.gate_id is None:
        waiting = "; ".join(f"{gate.gate_id}{_of_tool(gate)}" for gate in known.values()) or "nothing waits for a word"
        detail = f"a word names its gate in gate_id: {waiting}"
        raise ProblemError(problem("request_invalid", detail, remedy="Give gate_id and digest as the question did."))
    try:
        return UUID(word.gate_id)
    except ValueError:
        raise ProblemError(problem("gate_not_found", "gate_id is no id of a gate")) from None


def check_word(word: A2aGateWord, gate: GateView) -> None:
    """Raise ProblemError where *word* lets a call happen and does not say which, or denies one and not why."""
    if word.verdict == "denied":
        if not word.reason.strip():
            detail = f"at the gate {gate.gate_id}: a denial without a reason teaches the model nothing"
            raise ProblemError(problem("reason_required", detail))
        return
    digest = gate.detail.get("digest")
    if digest and word.digest is None:
        detail = f"the word at the gate {gate.gate_id} names what it decides in digest: {digest}{_of_tool(gate)}"
        raise ProblemError(problem("request_invalid", detail, remedy="Give gate_id and digest as the question did."))


def _of_tool(gate: GateView) -> str:
    tool = gate.detail.get("tool")
    return f" ({tool})" if tool else ""


def _after_others(error: ProblemError, decided: Collection[UUID]) -> ProblemError:
    """Return *error* with the gates at which earlier words of the same message count."""
    if not decided:
        return error
    counted = ", ".join(sorted(map(str, decided)))
    detail = f"{error.problem.detail.rstrip('.')}; what was said before it counts, at {counted}"
    return ProblemError(error.problem.model_copy(update={"detail": detail}))


async def _gate_of_task(
    dependencies: GatewayDependencies, principal: Principal, view: RunView, gate_id: UUID
) -> GateView:
    """Return a gate that the task had or has; raises ProblemError where it never was one of this task."""
    request = ListGates(project=principal.project, status=None, gate_id=gate_id, limit=1)
    page: GatePage = await dependencies.platform.request(rpc.LIST_GATES, request)
    if not page.gates:
        raise ProblemError(problem("gate_not_found", f"{gate_id} is no gate of this task"))
    run = await dependencies.platform.run(principal.project, page.gates[0].run_id)
    if view.run_id not in {run.run_id, run.root_run_id}:
        raise ProblemError(problem("gate_not_found", f"{gate_id} is no gate of this task"))
    return page.gates[0]
