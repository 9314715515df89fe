"""What a run takes over from the run that it continues: the conversation, the files, the rights, what was set for it.

Pure, so that the same runs always give the same turns. Earlier turns have as much room as the network gives to the
outputs of tools. What is longer is cut by a fixed rule: of a long turn the beginning and the end stay, and of many
turns the first two and the last ones. Rights only narrow along a thread.
"""

import json
from dataclasses import dataclass, replace
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.earlier_turns import (
    FIRST_TURNS,
    MAX_TURNS,
    TURNS_BYTES,
    ContinuedRun,
    EarlierTurn,
    TaskTurn,
    words_of,
)
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.text import as_text, unwrap_message
from towpath_contracts.tools.grants import narrow
from towpath_contracts.tools.previews import preview_of, text_bytes
from towpath_contracts.tools.workspace import MAX_FILES, MAX_WORKSPACE_BYTES, FileEntry
from towpath_orchestrator.core.task_attachments import carried_attachments

Turns = tuple[EarlierTurn, ...]

LEAST_ROOM = 8_192
"""Bytes of earlier turns that a run has at least, however little its network shows of outputs."""

SHARE_LEFT = 2
"""What is cut leaves this part of the room free: a model is asked for a summary after each cut, so cuts are rare."""

SHARE_OF_ONE = 8
"""One turn that is kept has at most this part of the room, so that the first two and the last two always fit."""

MARK_BYTES = 64
"""More than the line has that stands where a turn was cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run as it ended, with the files that it left; `own` says that a caller wrote its task, and no model."""

    run_id: UUID
    thread_id: UUID
    task: RunCreated
    status: str
    reason: str
    final: JsonObject | None
    own: bool = True
    files: tuple[FileEntry, ...] = ()
    summary: str = ""

    def with_state(self, files: tuple[FileEntry, ...], summary: str) -> "EarlierRun":
        """Return the same run with the files that it left, and what it had as a summary of turns before."""
        return replace(self, files=files, summary=summary)


def final_of(outcome: str | None) -> JsonObject | None:
    """Return the answer in what the row of an ended run says of its end."""
    found: JsonObject | None = None if outcome is None else json.loads(outcome).get("final")
    return found


def why_not_continued(task: SubmitTask, earlier: EarlierRun) -> Problem | None:
    """Return why *task* can't continue that run; None where it can."""
    run_id = str(earlier.run_id)
    if not earlier.own:
        return problem("reply_refused", f"another run has started {run_id}: reply to that one", run_id=run_id)
    if earlier.status not in FINAL_STATUSES:
        return problem("run_not_ended", f"run {run_id} is {earlier.status}", run_id=run_id)
    if task.network != earlier.task.network:
        detail = f"run {run_id} is of the network {earlier.task.network}, not of {task.network}"
        return problem("reply_refused", detail, run_id=run_id)
    return None


def completed_task(task: SubmitTask, earlier: EarlierRun) -> SubmitTask:
    """Return *task* with what it leaves open and the earlier run's task said.

    Steps, time, priority and the shape of the answer are its own; a budget begins anew, with nothing spent.
    """
    before = earlier.task
    return task.model_copy(
        update={
            "version": task.version or before.version,
            "system_params": {**before.system_params, **task.system_params},
            "quoted_inputs": {**before.quoted_inputs, **task.quoted_inputs},
            "labels": {**before.labels, **task.labels},
            "budget": task.budget or before.budget,
            "model": task.model or _model_of(task, before),
            "model_settings": task.model_settings or before.model_settings,
            "debug": task.debug or before.debug,
        }
    )


def _model_of(task: SubmitTask, before: RunCreated) -> str | None:
    """Return the model that the earlier task named; a script is played once, and not again."""
    return before.model if task.script is None and before.script_digest is None else None


def continuing_run(
    created: RunCreated, earlier: EarlierRun, snapshot: NetworkSnapshot, agent: str | None
) -> RunCreated:
    """Return the first event of the run that continues *earlier*; *agent* is the one that its task names.

    Raises GrantChainTooLongError.
    """
    before = earlier.task
    begins = agent or before.agent_key
    if created.kind != "network" or begins not in snapshot.agents:
        begins = created.agent_key  # of other kinds only some agents may begin
    kept, gone = turns_after(earlier, created.context_limit)
    own = {file.path: file for file in (*earlier.files, *created.workspace)}
    rights: JsonObject = {"grant": before.grant, "grants": before.grants}
    if created.grant is not None:
        rights = {"grants": narrow(before.grants, before.grant)}
        narrow(rights["grants"], created.grant)  # all of them stand above the children of the run
    return created.model_copy(
        update={
            "agent_key": begins,
            "messages": carried_attachments(kept, created.attachments, created.model, snapshot),
            "continues": _behind(earlier, gone),
            "workspace": tuple(own[path] for path in sorted(own)),
            **rights,
        }
    )


def _behind(earlier: EarlierRun, gone: Turns) -> ContinuedRun:
    """Return what the run continues; what is newly left out is to be summarized, with what stood for older turns."""
    before = earlier.task.continues
    older = 0 if before is None else before.turns_left_out
    said = EarlierTurn(role="assistant", content=f"[in short, what came before] {earlier.summary}")
    return ContinuedRun(
        run_id=earlier.run_id,
        thread_id=earlier.thread_id,
        turns_left_out=older + len(gone),
        to_summarize=(said, *words_of(gone)) if gone and earlier.summary else words_of(gone),
        summary=earlier.summary,
    )


def turns_after(earlier: EarlierRun, context_limit: int) -> tuple[Turns, Turns]:
    """Return what is shown of the conversation up to the end of that run, and what is newly left out of it."""
    asked = EarlierTurn(
        role="user",
        content=earlier.task.user_message,
        run_id=earlier.run_id,
        attachments=earlier.task.attachments,
    )
    answered = EarlierTurn(role="assistant", content=answer_of(earlier), run_id=earlier.run_id)
    turns = (*earlier.task.messages, asked, answered)
    return fit_turns(turns, min(TURNS_BYTES, max(LEAST_ROOM, context_limit)))


def answer_of(earlier: EarlierRun) -> str:
    """Return what a run answered, as text; of one without an answer how it ended."""
    final = earlier.final or {}
    if earlier.status != "completed":
        return f"[no answer: the run ended as {earlier.status}{earlier.reason and f', {earlier.reason}'}]"
    return as_text(unwrap_message(final))


def fit_turns(turns: Turns, room: int) -> tuple[Turns, Turns]:
    """Return those of *turns* that are shown in *room*, in bytes of JSON, and those behind the first that are not."""
    if len(turns) <= MAX_TURNS and sum(map(_bytes, turns)) <= room:
        return turns, ()
    short = tuple(_shortened(turn, room // SHARE_OF_ONE) for turn in turns)
    first, rest = short[:FIRST_TURNS], short[FIRST_TURNS:]
    left = room // SHARE_LEFT - sum(map(_bytes, first))
    kept = 0
    for turn in reversed(rest[-(MAX_TURNS // SHARE_LEFT) :]):
        left -= _bytes(turn)
        if left < 0:
            break
        kept += 1
    gone = len(rest) - kept
    return (*first, *rest[gone:]), rest[:gone]


def _bytes(turn: EarlierTurn | TaskTurn) -> int:
    """Return what a turn takes of a message: as JSON, where a control character has six bytes."""
    return text_bytes(canonical_json(turn.content))


def _shortened(turn: EarlierTurn, most: int) -> EarlierTurn:
    if _bytes(turn) <= most:
        return turn
    short = _cut(turn, most - MARK_BYTES)
    return short if _bytes(short) <= most else _cut(turn, (most - MARK_BYTES) // 6)


def _cut(turn: EarlierTurn, most: int) -> EarlierTurn:
    preview = preview_of(turn.content, most)
    gone = preview.size - text_bytes(preview.head) - text_bytes(preview.tail)
    text = f"{preview.head}\n[{gone} bytes are left out here]\n{preview.tail}"
    return turn.model_copy(update={"content": text})


def turn_problems(task: SubmitTask) -> list[ProblemDetail]:
    """Return what is wrong with the earlier turns that a task brings, beside their form."""
    size = sum(map(_bytes, task.messages))
    if size <= TURNS_BYTES:
        return []
    detail = f"the messages have {size} bytes together; the limit is {TURNS_BYTES}"
    return [ProblemDetail(pointer="/messages", code="request_too_large", detail=detail)]


def file_problem(created: RunCreated) -> Problem | None:
    """Return why a run can't begin with its files: those that were left to it and those that its task mounts."""
    many, size = len(created.workspace), sum(file.size for file in created.workspace)
    if many <= MAX_FILES and size <= MAX_WORKSPACE_BYTES:
        return None
    limits = f"{MAX_FILES} files and {MAX_WORKSPACE_BYTES} bytes"
    return problem(
        "request_too_large", f"with the files of the run before it has {many} of {size} bytes; the limits are {limits}"
    )
