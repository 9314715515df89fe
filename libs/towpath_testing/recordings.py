"""Recorded answers of models: written while a provider answers, and said again without one.

A line of the file is one answer with the digest of what was asked: model, settings, conversation and tools. Ids that
the platform draws differ from run to run, so both sides count them in the order in which they appear; how long a call
took, and the marks of fences, which are digests of texts with ids and times, count for nothing. Neither the
question nor a header is written, and every known secret is removed from the answer. What no line answers is a failure
that says so: a replay asks nobody.
"""

import json
import re
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from towpath.errors import RefusedError
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_contracts.problems.registry import problem
from towpath_decider.adapters.provider import OnText, Provider
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.native_tool_calls import native_tools
from towpath_fabric.redaction import redact, redact_json

KIND = "Recording"
MISSING = "recording_missing"
SHOWN_CHARS = 200
"""How much of a question's end is shown where no answer to it was recorded."""

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=call_)[0-9a-f]{32}")
_MARK = re.compile(r"(?<=<<<)(\w+) [0-9a-f]{16}(?=>>>)")
_TOOK = re.compile(r'(?<!\\)(\\"duration_ms\\":)\d+')
"""In the log that a prompt shows; deeper in a text it is what a tool has said."""

_COUNTED = re.compile(r"\{id (\d+)\}")


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What a model is asked, by its digest, and the ids in it in the order in which they appear."""

    digest: str
    ids: tuple[str, ...]

    def without_ids(self, text: str) -> str:
        """Return *text* with the ids of the question counted."""
        return _ID.sub(lambda found: self._counted(found[0]), text)

    def with_ids(self, text: str) -> str:
        """Return a text of `without_ids` with the ids of this question."""
        return _COUNTED.sub(lambda found: self._id(int(found[1]), found[0]), text)

    def _counted(self, written: str) -> str:
        plain = written.replace("-", "")
        return f"{{id {self.ids.index(plain)}}}" if plain in self.ids else written

    def _id(self, number: int, otherwise: str) -> str:
        return str(UUID(self.ids[number])) if number < len(self.ids) else otherwise


def asked_question(request: DecisionRequest, question: ModelQuestion, *, tools: bool) -> AskedQuestion:
    """Return what a recorded answer answers; *tools* says whether the model was offered its tools natively."""
    offered = native_tools(request) if tools else {}
    text = canonical_json(
        {
            "model": request.model,
            "kind": request.kind,
            "settings": request.settings.model_dump(mode="json") if request.settings is not None else None,
            "max_output_tokens": request.max_output_tokens,
            "instructions": question.instructions,
            "turns": [_turn(asdict(turn)) for turn in question.turns],
            "tools": {name: tool.model_dump(mode="json") for name, tool in offered.items()},
        }
    )
    ids: list[str] = []

    def count(found: re.Match[str]) -> str:
        plain = found[0].replace("-", "")
        if plain not in ids:
            ids.append(plain)
        return f"{{id {ids.index(plain)}}}"

    same = _TOOK.sub(r"\1", _MARK.sub(r"\1", _ID.sub(count, text)))
    return AskedQuestion(digest_text(same), tuple(ids))


def _turn(turn: JsonObject) -> JsonObject:
    return {**turn, "attachments": [one.model_dump(mode="json") for one in turn["attachments"]]}


class AnswerRecorder:
    """Writes the answers of providers into a file, each as soon as it is there; the first one begins it anew."""

    def __init__(self, path: Path) -> None:
        """Raises RefusedError where *path* holds anything but a recording, which would be lost, or can't be written."""
        self._path = path
        self._is_begun = False
        if path.exists() and (path.is_dir() or path.stat().st_size > 0):
            _read_head(path)
        try:
            path.open("a").close()  # before any answer is paid for
        except OSError as error:
            raise _refused(path, f"it can't be written: {error.strerror}") from error

    def keep(self, request: DecisionRequest, asked: AskedQuestion, reply: ModelReply, *, tools: bool) -> None:
        line = {
            "asked": asked.digest,
            "model": request.model,
            "agent": request.context.agent_key,
            "tools": tools,
            "text": redact(asked.without_ids(reply.text)),
            "cut_off": reply.cut_off,
            "fault": redact(reply.fault),
            "usage": reply.usage.model_dump(mode="json"),
            "cost": reply.cost.model_dump(mode="json"),
        }
        with self._path.open("a" if self._is_begun else "w", encoding="utf-8") as file:
            if not self._is_begun:
                file.write(json.dumps({"kind": KIND, "schema_version": 1}) + "\n")
                self._is_begun = True
            file.write(json.dumps(redact_json(line), ensure_ascii=False) + "\n")


class RecordingProvider:
    """A provider whose answers are kept as well."""

    def __init__(self, provider: Provider, recorder: AnswerRecorder) -> None:
        self._provider = provider
        self._recorder = recorder

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        tools = self.offers_tools(request)
        reply = await self._provider.complete(request, question, on_text)
        if isinstance(reply, ModelReply):  # a failure may be over the next time, so it is none of the answers
            self._recorder.keep(request, asked_question(request, question, tools=tools), reply, tools=tools)
        return reply

    def offers_tools(self, request: DecisionRequest) -> bool:
        return self._provider.offers_tools(request)

    async def close(self) -> None:
        await self._provider.close()


class ReplayProvider:
    """Says what was recorded. The same question a second time gets its second answer, and the last one from then on."""

    def __init__(self, path: Path) -> None:
        """Raises RefusedError `file_missing` where *path* is no recording."""
        self._path = path
        self._answers: dict[str, list[JsonObject]] = defaultdict(list)
        self._said: dict[str, int] = defaultdict(int)
        self._with_tools: set[str] = set()
        self.missing: list[str] = []
        for line in _lines(path):
            self._answers[line["asked"]].append(line)
            if line["tools"]:
                self._with_tools.add(line["model"])

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        asked = asked_question(request, question, tools=self.offers_tools(request))
        answers = self._answers.get(asked.digest)
        if not answers:
            message = self._describe(request, question, asked)
            self.missing.append(message)
            return ModelCallFailure(code=MISSING, message=message)
        line = answers[min(self._said[asked.digest], len(answers) - 1)]
        self._said[asked.digest] += 1
        return ModelReply(
            text=asked.with_ids(line["text"]),
            usage=Usage.model_validate(line["usage"]),
            cost=Cost.model_validate(line["cost"]),
            cut_off=line["cut_off"],
            fault=line["fault"],
        )

    def _describe(self, request: DecisionRequest, question: ModelQuestion, asked: AskedQuestion) -> str:
        said = " ".join(question.turns[-1].whole.split()) if question.turns else ""
        end = said if len(said) <= SHOWN_CHARS else "…" + said[-SHOWN_CHARS:]
        return (
            f"{self._path} has no answer of {request.model} for agent {request.context.agent_key} "
            f"(request {asked.digest}), which was asked: {end}"
        )

    def offers_tools(self, request: DecisionRequest) -> bool:
        return request.model in self._with_tools and bool(native_tools(request))

    async def close(self) -> None:
        self._said.clear()


def _read_head(path: Path) -> None:
    """Raise RefusedError where *path* does not begin as a recording does; its end may be missing."""
    try:
        with path.open(encoding="utf-8") as file:
            head: Any = json.loads(file.readline())
    except (OSError, ValueError) as error:
        raise _refused(path, str(error)) from error
    if not isinstance(head, dict) or head.get("kind") != KIND:
        raise _refused(path, f"its first line does not say kind: {KIND}")


def _lines(path: Path) -> list[JsonObject]:
    try:
        first, *others = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        if first.get("kind") != KIND:
            raise _refused(path, f"its first line does not say kind: {KIND}")
        return [_checked(one) for one in others]
    except (OSError, ValueError, AttributeError, LookupError) as error:
        raise _refused(path, str(error)) from error


def _checked(line: JsonObject) -> JsonObject:
    wanted: dict[str, type[Any]] = {"asked": str, "model": str, "tools": bool, "text": str, "cut_off": bool}
    wanted |= {"fault": str, "usage": dict, "cost": dict}
    wrong = [name for name, kind in wanted.items() if not isinstance(line[name], kind)]
    if wrong:
        msg = f"a line has no usable {', '.join(wrong)}"
        raise ValueError(msg)
    return line


def _refused(path: Path, why: str) -> RefusedError:
    remedy = "Name a file that towpath eval --record wrote, or to record a new one."
    return RefusedError(problem("file_missing", f"{path} is no recording of a model's answers: {why}", remedy=remedy))
