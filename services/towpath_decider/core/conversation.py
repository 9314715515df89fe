"""The order of attempts for one answer: ask, wait and ask again, ask for repair, give up.

At most MAX_FAILURES calls that brought no text, with waits of 1 s and 2 s between them; at most one question for
repair; nothing is asked twice that can't succeed the second time. Where a provider asks for more time than an attempt
may wait, the attempt is over and says so: the run waits, not the decider. The generator says what to do next and the
shell does it, so every order of events can be tried without a model or a clock.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import Cost, PlayedScriptEntry, Usage
from towpath_decider.core.answers import WHOLE_ANSWER, AcceptedAnswer, Check, RefusedAnswer, read_answer
from towpath_decider.core.prompt import Prompt
from towpath_decider.core.turns import NOTHING_SAID, ConversationTurn
from towpath_decider.core.usage import NO_USAGE, NOTHING
from towpath_readings.model_responses import NO_RESPONSE, ModelResponse

MAX_FAILURES = 3
"""Calls in total when every one fails; the third failure is the answer."""

WAITS_S = (1.0, 2.0)
"""Seconds before the second and the third attempt."""

MAX_WAIT_S = 10.0
"""How long one attempt waits in all: it holds a place in its decider meanwhile. A step's timeout is usually 60 s."""

INVALID_OUTPUT = "invalid_output"
"""The code of an answer that is none of the form; the run tells the model why."""

RATE_LIMITED = "model_rate_limited"
"""The code of a refusal because too much was asked lately: asking later helps, however often it was tried before."""

PREVIEW_CHARS = 200
"""How much of an unreadable answer is repeated in the reason."""

REPAIR = """Your answer can't be used: {reason}
Return only the raw JSON object, in the form the constraints give: no code fence, no text around it."""

CUT_OFF = "the answer was cut off at the limit of output tokens, make it shorter; "


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """What a model is asked: `turns` end with the platform's. `repairs` counts questions for a readable answer.

    `attached` are the contents of attachments by digest, in base64.
    """

    instructions: str
    turns: tuple[ConversationTurn, ...]
    repairs: int = 0
    attached: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The whole text for the model, as it is recorded."""
        return "\n\n".join((self.instructions, *(turn.whole for turn in self.turns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model wrote. `cut_off` means that it ran out of output tokens.

    `fault` says why it can't be used where its text alone does not show that, such as a tool call without an end.
    """

    text: str
    usage: Usage
    cost: Cost
    cut_off: bool = False
    fault: str = ""
    script: PlayedScriptEntry | None = None
    response: ModelResponse = NO_RESPONSE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailure:
    """A call that brought no text. `retry_after_s` is what the provider asked for, in seconds."""

    code: str
    message: str
    retryable: bool = False
    retry_after_s: float | None = None
    usage: Usage = NO_USAGE
    cost: Cost = NOTHING
    response: ModelResponse = NO_RESPONSE


@dataclass(frozen=True, slots=True, kw_only=True)
class AskModel:
    """Ask this and send the Reply or ModelCallFailure back."""

    question: ModelQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitBeforeRetry:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """There is an answer of the form that was asked for."""

    value: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """There is none; `message` names the whole chain of causes.

    `retry_after_s` is set where the provider may be asked again, after so many seconds.
    """

    code: str
    message: str
    retry_after_s: float | None = None


Dialogue = Generator[AskModel | WaitBeforeRetry, ModelReply | ModelCallFailure | None, Answered | GaveUp]


def converse(prompt: Prompt, check: Check, max_calls: int = 0, attached: Mapping[str, str] | None = None) -> Dialogue:
    """Yield the steps to an answer to *prompt* that passes *check*; at most *max_calls* calls, 0 for no limit.

    *attached* are the contents of its attachments by digest.
    """
    question = ModelQuestion(instructions=prompt.instructions, turns=prompt.turns, attached=attached or {})
    failures: list[ModelCallFailure] = []
    calls, waited = 0, 0.0
    while True:
        reply = yield AskModel(question=question)
        calls += 1
        match reply:
            case ModelReply():
                read = RefusedAnswer(reason=reply.fault) if reply.fault else read_answer(reply.text, check)
                if isinstance(read, AcceptedAnswer):
                    return Answered(value=read.value)
                reason = _reason(reply, read)
                if question.repairs or calls == max_calls:
                    return GaveUp(code=INVALID_OUTPUT, message=_unreadable(reason, reply, question.repairs))
                question = _repair(question, reply.text, reason)
            case ModelCallFailure():
                failures.append(reply)
                if not reply.retryable:
                    return GaveUp(code=reply.code, message=describe_failures(failures))
                asked = reply.retry_after_s
                if len(failures) == MAX_FAILURES or calls == max_calls:
                    later = asked if reply.code == RATE_LIMITED else None
                    return GaveUp(code=reply.code, message=describe_failures(failures), retry_after_s=later)
                wait = wait_before_next(failures)
                waited += wait
                if asked is not None and waited > MAX_WAIT_S:
                    return GaveUp(code=reply.code, message=describe_failures(failures), retry_after_s=asked)
                yield WaitBeforeRetry(seconds=wait)
            case None:
                return GaveUp(code="internal", message="a question was left without an answer")


def wait_before_next(failures: list[ModelCallFailure]) -> float:
    """Return the seconds to wait after the last failure: what it asked for where that is longer."""
    return max(WAITS_S[len(failures) - 1], failures[-1].retry_after_s or 0.0)


def describe_failures(failures: list[ModelCallFailure]) -> str:
    """Describe the failures in one text: the last one, and what came before it."""
    last, before = failures[-1], failures[:-1]
    shown = last.message
    if before:
        shown += f" (attempt {len(failures)}; before: {'; '.join(failure.message for failure in before)})"
    return shown


def _reason(reply: ModelReply, refused: RefusedAnswer) -> str:
    return f"{CUT_OFF if reply.cut_off else ''}{refused.reason}"


def _unreadable(reason: str, reply: ModelReply, repairs: int) -> str:
    """Return why the *reply* can't be used; whoever wrote a script has its text, which no model wrote."""
    if reply.script is not None:
        return reason.removeprefix(f"{WHOLE_ANSWER}: ")
    text = reply.text
    preview = text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"
    return f"{reason} ({'after one repair ' if repairs else ''}the model wrote: {preview!r})"


def _repair(question: ModelQuestion, text: str, reason: str) -> ModelQuestion:
    # Providers refuse an empty turn, so an empty answer is named in words.
    sent = text.encode("utf-8", "replace").decode()  # half of a surrogate pair can't be sent
    reply = ConversationTurn(role="model", text=sent if text.strip() else NOTHING_SAID)
    wanted = ConversationTurn(role="user", text=REPAIR.format(reason=reason))
    return replace(question, turns=(*question.turns, reply, wanted), repairs=1)
