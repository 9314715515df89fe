"""What the lines of a run have told of its causes: each is told once, and with the entry of a script that has it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from towpath_contracts.decisions.request import PlayedScriptEntry
from towpath_contracts.events.decision_events import DecisionReceived, DecisionRefused, DecisionRequestFailed

if TYPE_CHECKING:
    from towpath.networks.script_file import ScriptFile

TASK_SCRIPT = "scripted:task"
"""The model that plays the script which came with the task."""

LEAST_QUOTED = 200
"""Characters of what was told before by which a longer text is known to repeat it: the end may be cut there."""

_CURE = " Mend that entry"
"""How the sentence begins that says what to do, behind why the last entry of a script was refused."""


@dataclass(slots=True)
class ToldCauses:
    """Remembers what was told of one run. *script* is the file of its task's script, where that is known."""

    script: "ScriptFile | None" = None
    place: str = field(default="", init=False)
    """Where the entry stands that was played last; empty after a model's own answer."""

    ended: str = field(default="", init=False)
    """Why the request for a decision failed that was last told."""

    _failed: str = field(default="", init=False)
    """The same; empty once something was decided or asked again."""

    _refused: str = field(default="", init=False)
    _refused_at: str = field(default="", init=False)
    _told_at: set[str] = field(default_factory=set, init=False)
    """Where the entries stand of which a line said what is wrong."""

    def hear(self, event: DecisionReceived) -> None:
        """Take note of a decision, which may be refused yet."""
        self._failed = ""
        self.place = self._place(event.script, event.model)

    def of_failure(self, event: DecisionRequestFailed) -> str:
        """Return why no decision could be had, without what the line above says."""
        self.ended = self._failed = event.message
        self.place = self._place(event.script, event.model)
        again = event.message.find(self._refused[:LEAST_QUOTED]) if self._refused else -1
        cure = event.message.rpartition(_CURE)[2]
        if again < 0 or cure == event.message:
            self._told_at.add(self.place)
            return self.placed(event.message)
        self.place = self._refused_at
        return self.placed(f"mend that entry{cure}")

    def of_refusal(self, event: DecisionRefused) -> str:
        """Return why an agent was asked again; nothing where the line above says it."""
        told = bool(self._failed) and event.feedback.endswith(self._failed)
        self._refused = self._failed if told else event.feedback
        self._failed, self._refused_at = "", self.place
        return "" if told else self.placed(event.feedback)

    def untold(self, doubts: Iterable[str]) -> list[str]:
        """Return those of *doubts*, each behind its place, that are about entries of which no line told a cause."""
        told = tuple(f"{place}: " for place in self._told_at if place)
        return [one for one in doubts if not one.startswith(told)]

    def placed(self, text: str) -> str:
        """Return *text* behind the place of the entry that it is about, if it is about one."""
        return f"{self.place}: {text}" if self.place else text

    def _place(self, played: PlayedScriptEntry | None, model: str) -> str:
        if played is None:
            return ""
        if self.script is not None and model == TASK_SCRIPT:
            return self.script.place(played.index)
        return f"entry {played.index + 1} of {'the script' if model == TASK_SCRIPT else model}"
