"""A prompt as a conversation: the turns before, each as its author's, and at the end what is asked now.

The beginning of a conversation is the same in every request of an agent's stay, byte for byte: turns are only added.
What holds for one request alone (the steps that are left, where a run stands) is the tail of the last turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import to_json

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.decisions.decision import UseToolDetails
from towpath_contracts.decisions.earlier_turns import FIRST_TURNS, EarlierTurn
from towpath_contracts.decisions.epoch_turns import EpochTurn, EpochTurns
from towpath_contracts.decisions.request import FullToolOutput, PromptContext
from towpath_decider.core.attached_files import attached_section, shown_files
from towpath_decider.core.run_prompt import fenced, left_out_heading

UNKNOWN_BEGINNING = "(What was said before this is not known.)"
NOTHING_SAID = "(nothing)"
"""What stands for an answer without words: providers refuse an empty turn."""

NOT_MADE = "Not made."
STEPS_LEFT = "Steps left, this one included:"
NOT_SHOWN = "its result is not shown any more: output_read has it"

Role = Literal["user", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCall:
    """A call of a model in its provider's own form; `name` is the tool's."""

    call_id: str
    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of a call, for the provider's own form."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTurn:
    """One message of the conversation: `text`, and then `tail`, which no later request has.

    The files of `attachments` are shown before it. Where tools are called natively, `calls` or `results` and the text
    `beside` them say the same as `text`.
    """

    role: Role
    text: str
    tail: str = ""
    calls: tuple[MadeCall, ...] = ()
    results: tuple[CallResult, ...] = ()
    beside: str = ""
    attachments: tuple[StoredAttachment, ...] = ()

    @property
    def whole(self) -> str:
        """Everything in words."""
        return "\n\n".join(part for part in (self.text, self.tail) if part)

    @property
    def whole_beside(self) -> str:
        """What is told in words where calls and results are told natively."""
        return "\n\n".join(part for part in (self.beside, self.tail) if part)


def turns_before(context: PromptContext, texts: Mapping[str, str]) -> list[ConversationTurn]:
    """Return what was said before the task, each turn in its role; some templates of models want the user to begin.

    What a user said is the caller's word like the task itself, and fenced like it; *texts* are those of documents.
    """
    turns = [
        _said_by_user(one, texts)
        if one.role == "user"
        else ConversationTurn(role="model", text=one.content if one.content.strip() else NOTHING_SAID)
        for one in context.messages
    ]
    if context.messages_left_out:
        turns[FIRST_TURNS:FIRST_TURNS] = [ConversationTurn(role="user", text=_left_out(context))]
    if turns and turns[0].role == "model":
        turns.insert(0, ConversationTurn(role="user", text=UNKNOWN_BEGINNING))
    joined: list[ConversationTurn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role:
            before = joined[-1]
            attached = (*before.attachments, *turn.attachments)
            joined[-1] = replace(turn, text=f"{before.text}\n\n{turn.text}", attachments=attached)
        else:
            joined.append(turn)
    return joined


def _said_by_user(turn: EarlierTurn, texts: Mapping[str, str]) -> ConversationTurn:
    said = fenced("user_message", turn.content)
    if turn.attachments:
        said = f"{said}\n\n{attached_section(turn.attachments, texts)}"
    return ConversationTurn(role="user", text=said, attachments=shown_files(turn.attachments))


def _left_out(context: PromptContext) -> str:
    told = left_out_heading(context.messages_left_out, context.messages_summary)
    return f"({told})" if not context.messages_summary else f"({told})\n{fenced('summary', context.messages_summary)}"


def told(handoff: str | None, handoff_from: str | None, feedback: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Return the parts of a prompt that tell an agent what happened since its last decision, but for outputs."""
    parts: list[str] = []
    if handoff is not None:
        origin = f" by {handoff_from}" if handoff_from else ""
        parts.append(f"## Handed over{origin}\n" + fenced("handoff", handoff))
    if feedback:
        parts.append("## Why your last decision was not carried out\n" + bullets(feedback))
    if notes:
        parts.append("## Notes from the platform\n" + bullets(notes))
    return parts


def bullets(lines: Sequence[str]) -> str:
    """Return *lines* as a list, one line each: what a tool or a person said in one begins no section of a prompt."""
    return "\n".join(f"- {' '.join(line.splitlines())}" for line in lines)


def shown_output(output: FullToolOutput) -> str:
    """Return an output with its heading; its text is from outside."""
    about = f"### {output.tool} (execution_id {output.execution_id}, step {output.step}, {output.status})"
    return f"{about}\n{fenced('tool_output', output.text)}"


@dataclass(slots=True, kw_only=True)
class _UserTurn:
    """What is collected for the next turn of the user: the results of calls in both forms, then what is said beside."""

    shown: list[str] = field(default_factory=list)
    results: tuple[CallResult, ...] = ()
    said: list[str] = field(default_factory=list)

    def turn(self, steps_left: int, tail: str = "") -> ConversationTurn:
        said = (*self.said, f"{STEPS_LEFT} {steps_left}")
        text = "\n\n".join((*self.shown, *said))
        return ConversationTurn(
            role="user",
            text=text,
            tail=tail,
            results=self.results,
            beside="\n\n".join(said) if self.results else "",
        )


def conversation(
    context: PromptContext,
    epoch_turns: EpochTurns,
    opening: Sequence[str],
    tail: str,
    files: tuple[StoredAttachment, ...] = (),
) -> tuple[ConversationTurn, ...]:
    """Return the turns of a prompt: *opening* with its *files*, what was told and decided since, and *tail* last."""
    results = _ShownResults(context, epoch_turns.turns)
    turns: list[ConversationTurn] = []
    asked = _UserTurn(said=[*opening, *results.of_turns_left_out()])
    for turn in epoch_turns.turns:
        asked.said += told(turn.handoff, turn.handoff_from, turn.feedback, turn.notes)
        turns.append(asked.turn(turn.steps_left))
        answered, asked = _answered(turn, results)
        turns.append(answered)
    asked.said += told(context.handoff, context.handoff_from, context.feedback, context.notes)
    turns.append(asked.turn(context.steps_left, tail))
    return (replace(turns[0], attachments=files), *turns[1:])


class _ShownResults:
    """The results of calls as they are shown, each behind its call; those of child runs behind their decision."""

    def __init__(self, context: PromptContext, turns: Sequence[EpochTurn]) -> None:
        called = {call for turn in turns for call in turn.calls}
        self._outputs = {output.execution_id: output for output in context.outputs}
        self._older = {output.execution_id: output for output in context.older_outputs}
        self._turns_of_step = {turn.step: turn for turn in turns}
        oldest_first = sorted(context.outputs, key=lambda output: output.step)
        self._others = [output for output in oldest_first if output.execution_id not in called]

    def of_call(self, call: UUID) -> str:
        """Return the result of *call*, or what is left of it."""
        if (output := self._outputs.get(call)) is not None:
            return shown_output(output)
        if (older := self._older.get(call)) is not None:
            size = f", {older.size} bytes" if older.size else ""
            began = fenced("tool_output", older.preview)
            return f"### {older.tool} (execution_id {call}{size}): {NOT_SHOWN}; it begins\n{began}"
        return f"### execution_id {call}: {NOT_SHOWN}"

    def beside_calls(self, turn: EpochTurn) -> list[str]:
        """Return the outputs of the turn's step that answer no call; where a step has several turns, of its last."""
        if self._turns_of_step[turn.step] is not turn:
            return []
        return [shown_output(output) for output in self._others if output.step == turn.step]

    def of_turns_left_out(self) -> list[str]:
        """Return the outputs that belong to no turn that is left."""
        alone = [shown_output(output) for output in self._others if output.step not in self._turns_of_step]
        return ["## Tool outputs of earlier steps", *alone] if alone else []


def _answered(turn: EpochTurn, results: _ShownResults) -> tuple[ConversationTurn, _UserTurn]:
    """Return the model's turn, and the begin of the user's turn behind it."""
    text = to_json(turn.decision).decode()
    shown = [results.of_call(call) for call in turn.calls]
    beside = results.beside_calls(turn)
    proposals = _proposals(turn.decision)
    if not proposals or (shown and len(shown) != len(proposals)):
        return ConversationTurn(role="model", text=text), _UserTurn(shown=shown, said=beside)
    ids = [f"call_{call.hex}" for call in turn.calls] or [f"call_{turn.step}_{n}" for n in range(len(proposals))]
    calls = tuple(
        MadeCall(call_id=one, name=name, arguments=arguments)
        for one, (name, arguments) in zip(ids, proposals, strict=True)
    )
    results_of_calls = tuple(
        CallResult(call_id=call.call_id, text=result)
        for call, result in zip(calls, shown or [NOT_MADE] * len(calls), strict=True)
    )
    why = turn.decision.get("action_reasoning")
    answered = ConversationTurn(role="model", text=text, calls=calls, beside=why if isinstance(why, str) else "")
    return answered, _UserTurn(shown=shown or [NOT_MADE], results=results_of_calls, said=beside)


def _proposals(decision: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the calls that a decision asks for, where a provider's own form can hold them; else none."""
    if decision.get("action") != "USE_TOOL":
        return []
    try:
        details = UseToolDetails.model_validate(decision.get("action_details"))
    except ValidationError:
        return []
    calls = [(one.tool_name, one.tool_params) for one in details.proposals()]
    objects = [(name, arguments) for name, arguments in calls if isinstance(arguments, dict)]
    return objects if len(objects) == len(calls) else []
