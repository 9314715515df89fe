"""Scripts: decisions written beforehand, played instead of a model's.

A script is an array in which the place of an entry is its index. An entry with the `kind` of an assessment belongs
to that kind's queue, one with `agent` to that agent's queue, every other one to the queue `*`. The next entry is the
unread one with the lowest index among the agent's own queue and `*`, or in the queue of the assessment's kind alone;
the cursors in the request say what was read, so nothing is remembered here. An entry with a `when` is passed over
where that does not hold: a script can tell tasks apart, and a call that succeeded from one that did not.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic_core import from_json, to_json

from towpath_contracts.decisions.assessments import ANSWERS
from towpath_contracts.decisions.request import (
    INVALID_ANSWER,
    DecisionKind,
    FullToolOutput,
    PlayedScriptEntry,
    PromptContext,
)
from towpath_contracts.problems.near_names import nearest_name
from towpath_contracts.text import counted, truncate

COMMON = "*"
SHOWN_FEEDBACK = 400
"""Characters of what an agent was asked again about: the fault stands first, and lists of names may follow."""

MAX_DELAY_MS = 3_600_000
"""A scripted model may be slow, but no longer than the longest tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """One entry as a model would say it: the text of the first answer, and those after repair."""

    use: PlayedScriptEntry
    texts: tuple[str, ...]
    delay_ms: int = 0

    def text(self, repairs: int) -> str:
        """Return the answer after *repairs* questions for repair; the last text is repeated."""
        return self.texts[min(repairs, len(self.texts) - 1)]


class Script:
    """A script, indexed by queue. Entries that are no objects are played as they are: a model may write anything."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self._entries = entries
        self._queues: dict[str, list[int]] = {}
        for index, entry in enumerate(entries):
            self._queues.setdefault(_queue(entry), []).append(index)

    def __len__(self) -> int:
        return len(self._entries)

    @classmethod
    def parse(cls, data: bytes | str) -> "Script":
        """Read a JSON array. Raises ValueError for anything else."""
        entries = from_json(data)
        if not isinstance(entries, list):
            msg = f"a script is a JSON array of decisions, not {type(entries).__name__}"
            raise ValueError(msg)  # noqa: TRY004 - the caller reacts to every unreadable script alike
        return cls(entries)

    def next_answer(
        self,
        agent_key: str,
        cursors: Mapping[str, int],
        kind: DecisionKind = DecisionKind.DECIDE,
        context: PromptContext | None = None,
    ) -> ScriptedAnswer | None:
        """Return what *agent_key* says next to a request of *kind*, or None when nothing is left for it.

        Entries with a `when` are played where it holds in the *context*.
        """
        queues = (queue_of(kind),) if kind in _SEPARATE_KINDS else (agent_key, COMMON)
        nexts = [
            (found, queue)
            for queue in queues
            if (found := self._unread(queue, cursors.get(queue, 0), context)) is not None
        ]
        if not nexts:
            return None
        index, queue = min(nexts)
        return _scripted_answer(self._entries[index], PlayedScriptEntry(queue=queue, index=index))

    def near_agent(self, agent_key: str, cursors: Mapping[str, int], routes: Collection[str]) -> str | None:
        """Return for whom entries are that may be meant for *agent_key*: nobody who has decided or is in its *routes*.

        An agent that has entries of its own is meant by those.
        """
        if agent_key in self._queues:
            return None
        others = self._queues.keys() - cursors.keys() - set(routes) - {COMMON}
        return nearest_name(agent_key, sorted(one for one in others if not one.startswith(":")))

    def _unread(self, queue: str, cursor: int, context: PromptContext | None) -> int | None:
        indexes = self._queues.get(queue, [])
        unread = islice(indexes, bisect_left(indexes, cursor), None)
        return next((index for index in unread if _holds(self._entries[index], context)), None)


def exhaustion_message(entries: int, agent_key: str, feedback: Sequence[str], misspelled: str | None = None) -> str:
    """Return why a script of so many *entries* says nothing more for an agent.

    *feedback* is what the agent was asked again about: what was played is then at fault, and not what is
    missing behind it. *misspelled* is for whom entries are that may be meant for the agent.
    """
    message = f"the script of {counted(entries, 'entry', 'entries')} has nothing left for agent {agent_key}"
    if misspelled is not None:
        return f"{message}, and entries for agent {misspelled!r}, which has not decided; did you mean {agent_key!r}?"
    if not feedback:
        return f"{message}: add what it does next"
    why = _why_again(feedback[-1])
    why = why if why.endswith((".", "?", "!", "…")) else f"{why}."
    return f"{why} Mend that entry, or add what comes after it: {message}"


def _why_again(feedback: str) -> str:
    return truncate(feedback.removeprefix(INVALID_ANSWER), SHOWN_FEEDBACK)


def queue_of(kind: DecisionKind) -> str:
    """Return the queue of an assessment's answers; the sign keeps it apart from an agent of that name."""
    return f":{kind}"


_SEPARATE_KINDS = (*ANSWERS, DecisionKind.COMPILE_PLAN)
"""Kinds of requests that are answered by something else than a decision, each from a queue of its own."""

_KINDS = {str(kind): queue_of(kind) for kind in _SEPARATE_KINDS}


def _holds(entry: Any, context: PromptContext | None) -> bool:
    """Return whether the `when` of *entry* holds: `task` is part of the task, `last_call` how the last call ended."""
    when = entry.get("when") if isinstance(entry, dict) else None
    if not isinstance(when, dict):
        return True
    said = context.user_message if context is not None else ""
    ended = _last_status(context.outputs) if context is not None else ""
    last_call = when.get("last_call")
    return str(when.get("task", "")) in said and (
        last_call is None or (ended != "" and (ended == "succeeded") == (last_call == "succeeded"))
    )


def _last_status(outputs: Sequence[FullToolOutput]) -> str:
    """Return how the last call of the newest step ended; steps come newest first, calls of one in their order."""
    return next((one.status for one in reversed(outputs) if one.step == outputs[0].step), "")


def _queue(entry: Any) -> str:
    if not isinstance(entry, dict):
        return COMMON
    kind, agent = entry.get("kind"), entry.get("agent")
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    return agent if isinstance(agent, str) else COMMON


def _scripted_answer(entry: Any, use: PlayedScriptEntry) -> ScriptedAnswer:
    if not isinstance(entry, dict):
        return ScriptedAnswer(use=use, texts=(entry if isinstance(entry, str) else to_json(entry).decode(),))
    about = {"agent", "delay_ms"} | ({"kind"} if use.queue.startswith(":") else set())
    about |= {"when"} if isinstance(entry.get("when"), dict) else set()
    body = {key: value for key, value in entry.items() if key not in about}
    texts = _raw_texts(body["raw"]) if set(body) == {"raw"} else (to_json(body).decode(),)
    return ScriptedAnswer(use=use, texts=texts, delay_ms=_delay(entry.get("delay_ms")))


def _raw_texts(raw: Any) -> tuple[str, ...]:
    texts = raw if isinstance(raw, list) and raw else [raw]
    return tuple(text if isinstance(text, str) else to_json(text).decode() for text in texts)


def _delay(value: Any) -> int:
    return min(int(value), MAX_DELAY_MS) if isinstance(value, int | float) and value > 0 else 0
