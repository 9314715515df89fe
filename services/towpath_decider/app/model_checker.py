"""Tries a model with one small call: whether its provider takes the key, knows the model and answers in time.

The call is a real one, through the adapter, the address, the key and the limits that runs use, so it says of them what
a run would find. It belongs to no run, so no budget and no report of costs has it: the answer says what it took.
"""

import asyncio
from collections.abc import Mapping
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.model_checks import CheckModel, ModelChecked
from towpath_contracts.decisions.model_strings import PROVIDERS, model_fault
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest, PromptContext
from towpath_contracts.problems.registry import REGISTRY, ProblemError, problem
from towpath_contracts.text import sendable
from towpath_decider.adapters.provider import Provider
from towpath_decider.app.model_readiness import ModelReadiness
from towpath_decider.app.provider_limiter import NoProviderCapacityError, ProviderLimiter
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.turns import ConversationTurn
from towpath_fabric.clock import monotonic
from towpath_fabric.prices.model_price_list import ModelPriceList
from towpath_fabric.redaction import redact
from towpath_fabric.telemetry.logs import Logger

CHECK_LIMIT_S = 15.0
"""A model that says nothing for so long counts as away: somebody waits in front of a page."""

CHECKS_AT_ONCE = 4
"""Of one decider: a check takes no place of a decision, and so there may not be many."""

OUTPUT_TOKENS = 64
"""Room for the answer, and for a few words of a model that can't but think; one that is cut off has answered too."""

SCRIPTED = "scripted"
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
_QUESTION = ModelQuestion(
    instructions='Answer with the JSON object {"ok": true} and nothing else.',
    turns=(ConversationTurn(role="user", text="Are you there?"),),
)
_NO_RUN = UUID(int=0)
_REMEDIES = {
    "model_unauthorized": "Give the deciders a key that the provider takes, and start them again; an account without "
    "credit is refused alike.",
    "model_not_found": "Look at the name: the provider has no such model, or not for this key.",
    "model_rate_limited": "Wait, or have the provider raise the limit; TOWPATH_PROVIDER_LIMITS keeps runs below it.",
    "model_unavailable": "Look whether the deciders reach the provider's address, through proxy and firewall, and try "
    "again.",
    "model_timeout": "Try again; where it stays silent, look at the provider's address and at what is between.",
    "model_refused": "The provider refused a harmless question; look at the settings of the account.",
    "model_refused_request": "Look at what the provider says: runs would be refused alike.",
    "script_missing": "Give the task a script (--script FILE), or put one beside the networks (or where "
    "TOWPATH_SCRIPT_DIR of the deciders says).",
}
_ANY = "Look at what the provider says, and at docs/models.md."


class ModelChecker:
    """Tries models of the providers of one decider."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        readiness: ModelReadiness,
        log: Logger,
        *,
        limiter: ProviderLimiter | None = None,
        prices: ModelPriceList | None = None,
        limit_s: float = CHECK_LIMIT_S,
    ) -> None:
        """*limiter* lets the call in as it does those of runs; *prices* are the operator's own."""
        self._providers = providers
        self._readiness = readiness
        self._log = log
        self._limiter = limiter
        self._prices = prices
        self._limit_s = limit_s
        self._running = 0

    async def check_model(self, request: CheckModel) -> ModelChecked:
        """Answer `svc.decider.check_model`. Raises ProblemError for what names no model, and `overloaded`."""
        name = request.model.partition(":")[0]
        provider = self._providers.get(name)
        if provider is None or model_fault(request.model):
            detail = model_fault(request.model) or f"{name!r} is no provider of models; there are {_served()}"
            raise ProblemError(problem("model_unknown", detail))
        missing = await self._readiness.missing(request.model)
        if name == SCRIPTED or missing:
            code = "script_missing" if name == SCRIPTED else "model_unauthorized"
            return ModelChecked(model=request.model, works=not missing, **_why(code, missing) if missing else {})
        if self._running >= CHECKS_AT_ONCE:
            raise ProblemError(problem("overloaded", f"{CHECKS_AT_ONCE} models are being tried here already"))
        self._running += 1
        try:
            checked = await self._ask(provider, request)
        finally:
            self._running -= 1
        self._log.info(
            "a model was tried", model=request.model, works=checked.works, code=checked.code, caller=request.caller
        )
        return checked

    async def _ask(self, provider: Provider, request: CheckModel) -> ModelChecked:
        asked = _request(request, self._limit_s)
        began = monotonic()
        try:
            async with asyncio.timeout(self._limit_s):
                reply = await self._call(provider, asked)
        except TimeoutError:
            message = f"no answer within {self._limit_s:g} s"
            reply = ModelCallFailure(code="model_timeout", message=message)
        except NoProviderCapacityError as error:
            message = f"no place at {error} in time: its limit is used up by runs"
            reply = ModelCallFailure(code="model_rate_limited", message=message)
        cost = self._prices.cost_of(request.model, reply.usage) if self._prices is not None else None
        return ModelChecked(
            model=request.model,
            works=isinstance(reply, ModelReply),
            duration_ms=int((monotonic() - began) * 1_000),
            usage=reply.usage,
            cost=cost or reply.cost,
            **_why(reply.code, reply.message) if isinstance(reply, ModelCallFailure) else {},
        )

    async def _call(self, provider: Provider, asked: DecisionRequest) -> ModelReply | ModelCallFailure:
        permit = await self._limiter.acquire(asked, _QUESTION) if self._limiter is not None else None
        reply: ModelReply | ModelCallFailure | None = None
        try:
            reply = await provider.complete(asked, _QUESTION)
        finally:
            if self._limiter is not None and permit is not None:
                self._limiter.release(permit, reply)
        return reply


def _served() -> str:
    return ", ".join(sorted(PROVIDERS))


def _why(code: str, message: str) -> dict[str, str]:
    known = REGISTRY.get(code)
    remedy = _REMEDIES.get(code) or (known.remedy if known is not None else _ANY)
    return {"code": code, "detail": sendable(redact(message)), "remedy": remedy}


def _request(request: CheckModel, limit_s: float) -> DecisionRequest:
    return DecisionRequest(
        request_id=_NO_RUN,
        run_id=_NO_RUN,
        project=request.project,
        attempt=1,
        fence=0,
        step=1,
        epoch=0,
        kind=DecisionKind.CONFIDENCE,
        model=request.model,
        context=PromptContext(agent_key="check"),
        response_schema=_SCHEMA,
        max_output_tokens=OUTPUT_TOKENS,
        timeout_ms=int(limit_s * 1_000),
        caller=request.caller,
    )
