"""Proposals of grants: what a task might be allowed, as past runs or a model suggest it. They change no right.

A model is asked in an ordinary run of the asking caller, with that caller's budgets and turns; what it answers is
checked here before anybody sees a grant.
"""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from towpath_contracts import rpc
from towpath_contracts.grant_proposals.asked_grants import answer_refused, grant_of_answer, question_task
from towpath_contracts.grant_proposals.proposals import MIN_SHARE, GetGrantFromRuns, GrantProposal, GrantQuestion
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import PreviewPrompt, RunView
from towpath_contracts.tools.access import CheckGrant, GrantChecked
from towpath_fabric.clock import wall
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.dependencies import (
    ClientSpan,
    Dependencies,
    RunsReader,
    RunsWriter,
    documented,
    json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/grants", route_class=BoundedJsonRoute, tags=["tool access"])

ANSWER_WAIT_S = 25.0
"""How long one request waits for a model; clients and proxies give up after 30 s."""

HISTORY = timedelta(days=30)
"""How far back runs are read, unless the request says otherwise."""

HISTORY_TIMEOUT_S = 25.0
"""How long reading past runs may take before the answer is `unavailable`."""

_AGAIN = "Send the same request with the same idempotency_key: it waits for the same run."


@router.post(
    "/propose",
    response_model=GrantProposal,
    responses=documented("network_not_found", "grant_not_proposed", "timeout", "script_not_allowed"),
    summary="Let a model propose a grant",
)
async def propose_grant(
    question: GrantQuestion, dependencies: Dependencies, principal: RunsWriter, span: ClientSpan
) -> Response:
    """Ask a model which tools a task needs; the answer is a grant to look at and to submit the task with.

    The model sees the task's text and what tools are named and described as, and can call nothing. The run is one of
    the caller's, and its id comes with the proposal.
    """
    platform = dependencies.platform
    wanted = PreviewPrompt(project=principal.project, network=question.network, version=question.version)
    version: NetworkVersion = await platform.request(rpc.GET_NETWORK, wanted)
    if version.snapshot is None:
        raise ProblemError(problem("version_not_found", f"the snapshot of {question.network} is gone"))
    task = question_task(question, version.snapshot)
    accepted = await platform.submit(principal.caller, task, span)
    run = await platform.wait_for_end(principal.project, accepted.run_id, ANSWER_WAIT_S)
    answered = _ended(run, str(accepted.run_id))
    model = task.model or "scripted:task"
    proposal = grant_of_answer(version.snapshot, version.version, answered.final, accepted.run_id, model)
    await _check_conditions(platform, principal.project, proposal)
    return json_answer(proposal)


@router.get(
    "/from-runs/{network:path}",
    response_model=GrantProposal,
    responses=documented("network_not_found", "grant_not_proposed"),
    summary="A grant from past runs",
)
async def grant_from_runs(
    network: str,
    dependencies: Dependencies,
    principal: RunsReader,
    since: Annotated[AwareDatetime | None, Query(description="30 days ago, unless given; with its zone")] = None,
    label: Annotated[str | None, Query(max_length=256, description="`key=value`: only runs with this label")] = None,
    min_share: Annotated[float, Query(ge=0, le=1, description="leave out what a smaller share used")] = MIN_SHARE,
    tight: Annotated[bool, Query(description="bind entries to destinations that never changed")] = False,
) -> Response:
    """Return a grant of the tools that completed runs of the network have used, with how many runs used each.

    It counts what the events of these runs tell one by one, to whoever may read them.
    """
    request = GetGrantFromRuns(
        project=principal.project,
        network=network,
        since=since or wall() - HISTORY,
        label=label,
        min_share=min_share,
        tight=tight,
    )
    return json_answer(await dependencies.platform.request(rpc.GRANT_FROM_RUNS, request, HISTORY_TIMEOUT_S))


def _ended(run: RunView | None, run_id: str) -> RunView:
    """Return the run in which the model has answered; raises ProblemError where it has not."""
    if run is None or run.status not in FINAL_STATUSES:
        raise ProblemError(problem("timeout", "the model has not answered yet", run_id=run_id, remedy=_AGAIN))
    if run.status != "completed":
        why = run.message or run.reason or "without an answer"
        detail = f"the run that asks the model ended as {run.status}: {why}"
        raise ProblemError(problem("grant_not_proposed", detail, run_id=run_id))
    return run


async def _check_conditions(platform: PlatformClient, project: str, proposal: GrantProposal) -> None:
    """Refuse a proposal whose conditions are not of the language of grants, as a submission would."""
    if all(rule.when is None for rule in proposal.grant) or proposal.run_id is None:
        return
    grant = tuple(rule.model_dump(mode="json") for rule in proposal.grant)
    checked: GrantChecked = await platform.request(rpc.CHECK_GRANT, CheckGrant(project=project, grant=grant))
    if checked.problems:
        raise answer_refused(checked.problems, proposal.run_id)
