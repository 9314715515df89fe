"""What workers are told of the run of a call: what its row knows, and of an older row what a request says."""

import json
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry
from tests.support.tas.tas_calls import ARGS, NOW, RUN, ask, request

from towpath_contracts.tools.calls import ToolInvocation
from towpath_contracts.tools.tickets import CallingRun
from towpath_fabric.tickets import TicketSigner
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher, TicketIssuer
from towpath_tas.core.call import DispatchCall, LedgerCall, LedgerChange
from towpath_tas.metrics import TasMetrics

ROOT, TRACE = uuid.uuid4(), uuid.uuid4()


def accepted(**said: Any) -> LedgerCall:
    call = ask(None, request(**said)).call
    assert call is not None
    return call


def of_before(call: LedgerCall) -> LedgerCall:
    """The same row as a service without these members has written it."""
    return replace(call, context=json.dumps({"labels": {"team": "a"}}))


async def told(call: LedgerCall, root: UUID | None = None) -> tuple[ToolInvocation, CallingRun]:
    """What a worker gets of *call*; *root* is what a request says of it."""
    sent: list[bytes] = []

    async def publish(_subject: str, body: bytes, _headers: Any = None) -> bool:
        sent.append(body)
        return True

    clock = SimpleNamespace(now=lambda: NOW, known=True)
    tickets = TicketIssuer(TicketSigner(Ed25519PrivateKey.generate()), clock, 60)  # type: ignore[arg-type]
    publisher = LedgerEffectPublisher(SimpleNamespace(publish=publish), tickets, TasMetrics(CollectorRegistry()))  # type: ignore[arg-type]
    await publisher.send(LedgerChange(effects=(DispatchCall(call=call),)), root)
    invocation = ToolInvocation.model_validate_json(sent[0])
    assert tickets.read(invocation.ticket).run_digest == invocation.run_digest, "all of it is attested"
    return invocation, CallingRun.model_validate(invocation.run)


async def test_a_row_knows_the_run_above_its_call_and_the_callers_trace_without_any_request() -> None:
    call = accepted(root_run_id=ROOT, trace_id=TRACE, system_params=("order_id",))
    envelope, run = await told(call)
    assert (envelope.root_run_id, envelope.trace_id, envelope.args) == (ROOT, TRACE, ARGS)
    assert (run.root_run_id, run.system_params, run.labels) == (ROOT, ("order_id",), {"team": "a"})
    _, run = await told(call, uuid.uuid4())
    assert run.root_run_id == ROOT, "the row's word counts"


async def test_the_run_that_a_caller_submitted_is_attested_as_its_own_root() -> None:
    envelope, run = await told(accepted())
    assert (run.root_run_id, run.system_params) == (RUN, ())
    assert (envelope.root_run_id, envelope.trace_id) == (None, None), "and is not said twice"


async def test_of_an_older_row_the_root_is_what_a_request_says_and_not_known_without_one() -> None:
    old = of_before(accepted(root_run_id=ROOT, system_params=("order_id",)))
    envelope, run = await told(old, ROOT)
    assert (envelope.root_run_id, run.root_run_id) == (ROOT, ROOT)
    envelope, run = await told(old)
    assert (envelope.root_run_id, run.root_run_id, run.system_params) == (None, None, ())
    assert (run.caller, run.labels) == ("anna", {"team": "a"})
