"""One decision from its request to its fact: render, converse, count.

Every request ends in exactly one fact, whatever the model, the network or the template does; only an outage of the
platform itself ends it without one. Nothing here touches the broker, so it runs the same in a test and in a service.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.model_strings import OTHER_SERVERS
from towpath_contracts.decisions.request import (
    CALL_UNASKED,
    DecisionKind,
    DecisionRequest,
    LlmCallLog,
    PlayedScriptEntry,
    PromptContext,
    RenderPromptRequest,
    Usage,
)
from towpath_contracts.facts import LONGEST_WAIT_S, DecisionFailedFact, DecisionMadeFact
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.text import sendable
from towpath_decider.adapters.attachment_source import LoadAttachments
from towpath_decider.adapters.provider import Provider, TextListener
from towpath_decider.app.compile_caches import AnswerCheckCompiler
from towpath_decider.app.prompt_renderer import NOTHING_ATTACHED, PromptRenderer
from towpath_decider.app.provider_limiter import NoProviderCapacityError, ProviderLimiter
from towpath_decider.core.answer_checks import expected_schema
from towpath_decider.core.answers import RefusedAnswer
from towpath_decider.core.conversation import (
    INVALID_OUTPUT,
    Answered,
    AskModel,
    Dialogue,
    GaveUp,
    ModelCallFailure,
    ModelQuestion,
    ModelReply,
    converse,
)
from towpath_decider.core.prompt import Prompt
from towpath_decider.core.usage import NOTHING, add_costs, add_usage
from towpath_fabric.clock import monotonic, platform_time
from towpath_fabric.prices.model_price_list import ModelPriceList
from towpath_fabric.prompt_templates import PromptInvalidError
from towpath_fabric.redaction import redact
from towpath_fabric.request_loop import PlatformUnavailableError

MESSAGE_CHARS = 2_000
"""The longest reason of a failure; it is shown to people and, for `invalid_output`, to the model."""

BODY_CHARS = 300_000
"""Prompt and answer in a log message together stay below the broker's 1 MiB, also in UTF-8 with escapes."""

ANSWER_BYTES = 512 * 1024
"""The largest answer that travels in a fact; half of what the broker carries."""

CALLS_KEPT_APART = 100
"""Far more calls than one answer takes: the numbers of a request that was delivered again begin there."""

UNAVAILABLE = "model_unavailable"
"""The code of a call that failed on its way, or at the provider: nobody knows what it used."""

_NOBODY = UUID(int=0)
"""The run of a prompt that is only shown."""

Sleep = Callable[[float], Awaitable[None]]
OpenTextListener = Callable[[DecisionRequest], TextListener | None]
"""Returns what receives the text of one call while the model writes it; None where nobody wants it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedModelCall:
    """One model call as it went. `question` and `reply` are kept until the fact is sent."""

    question: ModelQuestion
    reply: ModelReply | ModelCallFailure
    started_at: datetime
    duration_ms: int


@dataclass(slots=True, kw_only=True)
class DecisionInProgress:
    """What is known of a request while it is being answered."""

    request: DecisionRequest
    started: float
    prompt: Prompt | None = None
    calls: list[FinishedModelCall] = field(default_factory=list)
    begun: int = 0

    @property
    def script(self) -> PlayedScriptEntry | None:
        """The script entry that was played last."""
        return next((c.reply.script for c in reversed(self.calls) if isinstance(c.reply, ModelReply)), None)

    @property
    def raw_text(self) -> str | None:
        """The text that the model wrote last."""
        return next((c.reply.text for c in reversed(self.calls) if isinstance(c.reply, ModelReply)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedDecision:
    """The fact for the run, and the calls behind it."""

    fact: DecisionMadeFact | DecisionFailedFact
    progress: DecisionInProgress


class DecisionMaker:
    """Answers requests with the providers it is given, by the first part of the model string."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        sleep: Sleep = asyncio.sleep,
        open_listener: OpenTextListener | None = None,
        limiter: ProviderLimiter | None = None,
        prices: ModelPriceList | None = None,
        load_attachments: LoadAttachments | None = None,
    ) -> None:
        """*open_listener* is called before each call of a model, for who receives its text; *limiter* admits calls.

        *prices* are the operator's own, which come before those that a provider's adapter knows.
        """
        self._providers = providers
        self._sleep = sleep
        self._open_listener = open_listener
        self._limiter = limiter
        self._prices = prices
        self._load_attachments = load_attachments
        self._prompts = PromptRenderer()
        self._checks = AnswerCheckCompiler()

    async def answer(self, request: DecisionRequest) -> FinishedDecision:
        """Return the decision, or why there is none. Raises nothing but CancelledError and PlatformUnavailableError."""
        progress = DecisionInProgress(request=request, started=monotonic())
        try:
            async with asyncio.timeout(request.timeout_ms / 1000):
                result = await self._decide(request, progress)
        except TimeoutError:
            result = _timed_out(progress)
        except NoProviderCapacityError as error:
            result = _no_capacity(progress, str(error))
        return FinishedDecision(fact=_fact(progress, result), progress=progress)

    async def _decide(self, request: DecisionRequest, progress: DecisionInProgress) -> Answered | GaveUp:
        name = request.model.partition(":")[0]
        provider = self._providers.get(name)
        if provider is None:
            served = ", ".join(sorted(self._providers))
            message = f"this decider has no provider {name!r}; it serves {served}; {OTHER_SERVERS}"
            return GaveUp(code="model_unknown", message=message)
        try:
            check = await self._checks.check_for(request)
            if isinstance(check, RefusedAnswer):
                return GaveUp(code="request_invalid", message=check.reason)
            with self._prompts.room(request.project, request.context):
                attached = await self._attached(request)
                if isinstance(attached, GaveUp):
                    return attached
                progress.prompt = await self.prompt_of(
                    *(request.project, request.context, expected_schema(request), request.kind),
                    native_tools=provider.offers_tools(request),
                    attached=attached,
                )
        except PromptInvalidError as error:
            return GaveUp(code="prompt_invalid", message=str(error))
        except ProblemError as error:
            raise PlatformUnavailableError(error.problem.detail) from error
        dialogue = converse(progress.prompt, check, request.max_calls, attached)
        return await self._run_dialogue(dialogue, provider, progress)

    async def _attached(self, request: DecisionRequest) -> Mapping[str, str] | GaveUp:
        """Return the contents of what is to be shown, by digest."""
        load, wanted = self._load_attachments, [one for one in request.context.all_attachments if one.shown]
        if not wanted:
            return {}
        if load is None:
            return GaveUp(code="attachment_unavailable", message="this decider fetches no attachments")
        try:
            return await load(request.run_id, wanted)
        except LookupError as error:
            return GaveUp(code="attachment_unavailable", message=str(error))

    async def shown_prompt(self, shown: RenderPromptRequest) -> Prompt:
        """Render the prompt that a model would get. Raises PromptInvalidError, and ProblemError `overloaded`."""
        provider = self._providers.get(shown.model.partition(":")[0])
        asked = DecisionRequest(
            request_id=_NOBODY,
            run_id=_NOBODY,
            project=shown.project,
            attempt=1,
            fence=0,
            step=1,
            epoch=0,
            model=shown.model,
            context=shown.context,
        )
        offered = provider is not None and provider.offers_tools(asked)
        return await self.prompt_of(shown.project, shown.context, native_tools=offered)

    async def prompt_of(
        self,
        project: str,
        context: PromptContext,
        answer_schema: JsonObject | None = None,
        kind: DecisionKind = DecisionKind.DECIDE,
        *,
        native_tools: bool = False,
        attached: Mapping[str, str] = NOTHING_ATTACHED,
    ) -> Prompt:
        """Render the prompt of a request. Raises PromptInvalidError, and ProblemError `overloaded`."""
        asked = project, context, answer_schema, kind
        return await self._prompts.render(*asked, native_tools=native_tools, attached=attached)

    async def _run_dialogue(
        self, dialogue: Dialogue, provider: Provider, progress: DecisionInProgress
    ) -> Answered | GaveUp:
        """Do what the dialogue says until it is over."""
        reply: ModelReply | ModelCallFailure | None = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as over:
                result: Answered | GaveUp = over.value
                return result
            reply = None
            if isinstance(step, AskModel):
                reply = await self._call_model(provider, step.question, progress)
            else:
                await self._sleep(step.seconds)

    async def _call_model(
        self, provider: Provider, question: ModelQuestion, progress: DecisionInProgress
    ) -> ModelReply | ModelCallFailure:
        permit = None
        if self._limiter is not None:
            permit = await self._limiter.acquire(progress.request, question, begun=progress.begun > 0)
        started_at, started = platform_time(), monotonic()
        progress.begun += 1
        listener = self._open_listener(progress.request) if self._open_listener is not None else None
        reply: ModelReply | ModelCallFailure | None = None
        try:
            reply = await provider.complete(
                progress.request, question, listener.on_text if listener is not None else None
            )
        finally:
            if listener is not None:
                listener.end()
            if self._limiter is not None and permit is not None:
                self._limiter.release(permit, reply)
        reply = self._priced(progress.request.model, reply)
        progress.calls.append(
            FinishedModelCall(question=question, reply=reply, started_at=started_at, duration_ms=_ms_since(started))
        )
        return reply

    def _priced(self, model: str, reply: ModelReply | ModelCallFailure) -> ModelReply | ModelCallFailure:
        """Return *reply* at the operator's price of *model*, where there is one."""
        cost = self._prices.cost_of(model, reply.usage) if self._prices is not None else None
        return reply if cost is None else replace(reply, cost=cost)

    async def close(self) -> None:
        """Close every provider."""
        for provider in self._providers.values():
            await provider.close()


def _ms_since(started: float) -> int:
    return int((monotonic() - started) * 1000)


def _timed_out(progress: DecisionInProgress) -> GaveUp:
    message = f"no decision within {progress.request.timeout_ms} ms"
    failure = next((c.reply for c in reversed(progress.calls) if isinstance(c.reply, ModelCallFailure)), None)
    if failure is not None:
        message += f" (before: {failure.message})"
    return GaveUp(code="model_timeout", message=message)


def _no_capacity(progress: DecisionInProgress, provider: str) -> GaveUp:
    """Only what nobody was asked is asked anew without end; else the last call's word is the end of this attempt."""
    why = f"no place at {provider} in time"
    match progress.calls[-1].reply if progress.calls else None:
        case ModelCallFailure() as failure:
            later = failure.retry_after_s if failure.retryable else None
            message = f"{failure.message} (and {why} for another call)"
            return GaveUp(code=failure.code, message=message, retry_after_s=later)
        case ModelReply():
            return GaveUp(code=INVALID_OUTPUT, message=f"the answer was not of the form, and {why} for a repair")
        case None:
            return GaveUp(code=CALL_UNASKED, message=why)


def _fact(progress: DecisionInProgress, result: Answered | GaveUp) -> DecisionMadeFact | DecisionFailedFact:
    request, raw = progress.request, progress.raw_text
    if raw is not None and isinstance(result, Answered) and len(raw) * 4 > ANSWER_BYTES:
        size = len(raw.encode("utf-8", "surrogatepass"))
        if size > ANSWER_BYTES:
            result = GaveUp(code=INVALID_OUTPUT, message=f"the answer has {size} bytes; the limit is {ANSWER_BYTES}")
    common: JsonObject = {
        "run_id": request.run_id,
        "fact_id": f"{request.request_id}:{request.attempt}",
        "request_id": request.request_id,
        "attempt": request.attempt,
        "model": request.model,
        "usage": add_usage(call.reply.usage for call in progress.calls),
        "cost": add_costs(call.reply.cost for call in progress.calls),
        "duration_ms": _ms_since(progress.started),
        "prompt_digest": progress.prompt.digest if progress.prompt is not None else "",
        "raw_digest": digest_text(raw) if raw is not None else "",
        "script": progress.script,
    }
    if request.max_calls:
        common |= _usage_with_uncounted(progress)
    if isinstance(result, Answered):
        return DecisionMadeFact(decision=result.value, **common)
    if result.retry_after_s is not None:
        common["retry_after_s"] = min(result.retry_after_s, LONGEST_WAIT_S)
    return DecisionFailedFact(code=result.code, message=sendable(redact(result.message)[:MESSAGE_CHARS]), **common)


def _usage_with_uncounted(progress: DecisionInProgress) -> JsonObject:
    """Return, for a run with a budget, how many calls ended without an answer: they may have been paid."""
    cut_off = progress.begun - len(progress.calls)
    silent = sum(
        isinstance(call.reply, ModelCallFailure)
        and call.reply.code == UNAVAILABLE
        and not call.reply.usage.total_tokens
        for call in progress.calls
    )
    usage = add_usage((*(call.reply.usage for call in progress.calls), Usage(model_calls=cut_off)))
    return {"usage": usage, "uncounted": cut_off + silent}


def internal_failure(request: DecisionRequest, error: Exception) -> DecisionFailedFact:
    """Return the fact for a failure that should not be; its log line has the rest."""
    return DecisionFailedFact(
        run_id=request.run_id,
        fact_id=f"{request.request_id}:{request.attempt}",
        request_id=request.request_id,
        attempt=request.attempt,
        code="internal",
        message=f"the decider failed: {type(error).__name__}",
        model=request.model,
        cost=NOTHING,
    )


def log_calls(outcome: FinishedDecision, delivery: int = 1) -> list[LlmCallLog]:
    """Return the messages for the log-writer: every call, with bodies only where the run asked for `debug`.

    A scripted decision without debug has nothing that is not in its fact. *delivery* counts how often the
    broker has given the request to somebody: of two deciders that both paid a model for it, both stay recorded.
    """
    progress, request = outcome.progress, outcome.progress.request
    if progress.script is not None and not request.debug:
        return []
    first = 1 + CALLS_KEPT_APART * (delivery - 1)
    return [_log_call(request, number, call) for number, call in enumerate(progress.calls, first)]


def _log_call(request: DecisionRequest, number: int, call: FinishedModelCall) -> LlmCallLog:
    reply, prompt = call.reply, call.question.text
    text = reply.text if isinstance(reply, ModelReply) else None
    return LlmCallLog(
        request_id=request.request_id,
        run_id=request.run_id,
        project=request.project,
        attempt=request.attempt,
        call=number,
        step=request.step,
        agent_key=request.context.agent_key,
        kind=request.kind,
        model=request.model,
        started_at=call.started_at,
        duration_ms=call.duration_ms,
        usage=reply.usage,
        cost=reply.cost,
        prompt_digest=digest_text(prompt),
        raw_digest=digest_text(text) if text is not None else None,
        prompt=_body(prompt) if request.debug else None,
        raw_text=_body(text) if request.debug and text is not None else None,
        error=sendable(f"{reply.code}: {reply.message}") if isinstance(reply, ModelCallFailure) else None,
    )


def _body(text: str) -> str:
    clean = sendable(text)
    return clean if len(clean) <= BODY_CHARS else clean[:BODY_CHARS] + f"… ({len(clean) - BODY_CHARS} more characters)"
