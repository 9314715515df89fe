"""Drives a background run by hand: tools of the platform are permitted at once, and texts are kept as blobs are."""

from typing import Any

from tests.support.engine.machine import RUN, Machine, agent, snapshot, tool, use

from towpath_contracts import facts
from towpath_contracts.canonical import digest_text
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.tools.internal_tools import INTERNAL_TOOLS
from towpath_contracts.tools.workspace import FileEntry
from towpath_engine.handlers.calls.internal_tools import digests_for
from towpath_engine.requests.effects import TextToStore

EQUIPPED = (*INTERNAL_TOOLS, "lint", "look")


def network(**more: Any) -> NetworkSnapshot:
    tools = (*INTERNAL_TOOLS.values(), tool("lint"), tool("look"))
    worker = agent("worker", equipped_tools=EQUIPPED, allow_respond=True)
    return snapshot(worker, tools=tools, timeout_ms=3_600_000, **more)


class BackgroundRun(Machine):
    """One background run; `mounts` are read-only files by path."""

    def __init__(
        self,
        *,
        mounts: dict[str, str] | None = None,
        schema: dict[str, Any] | None = None,
        max_steps: int = 24,
        kind: str = "background",
        **settings: Any,
    ) -> None:
        self.texts: dict[str, str] = {}
        entries = []
        for path, text in (mounts or {}).items():
            self.texts[digest_text(text)] = text
            size = len(text.encode())
            entries.append(FileEntry(path=path, digest=digest_text(text), size=size, read_only=True))
        background = {"objective": "Review the change.", "deliverable_schema": schema, "settings": settings}
        more: dict[str, Any] = {} if kind == "network" else {"background": background}
        super().__init__(network(), kind=kind, max_steps=max_steps, workspace=tuple(entries), **more)

    def feed(self, fact: facts.AnyFact, *, after: float = 0.0) -> list[ev.AnyEvent]:
        made = super().feed(fact, after=after)
        for effect in self.sent:
            if isinstance(effect.message, TextToStore):
                self.texts[effect.message.digest] = effect.message.text
        return made

    def permit(self, index: int = 0, *, after: float = 0.0, **more: Any) -> list[ev.AnyEvent]:
        """Permit a call, with the texts that it reads, as the orchestrator adds them."""
        execution_id = self.state.calls[index].call.execution_id
        bare = facts.InternalToolPermittedFact(run_id=RUN, execution_id=execution_id, policy_version=1, **more)
        wanted = digests_for(self.state, bare)
        return self.feed(bare.model_copy(update={"contents": {d: self.texts[d] for d in wanted}}), after=after)

    def act(self, name: str, **args: Any) -> Any:
        """Decide for an internal tool, permit it, and return its result; a failure is returned whole."""
        self.decide(use(name, **args))
        finished = next(e for e in self.permit() if isinstance(e, ev.ToolCallFinished))
        return finished.result if finished.status == "succeeded" else finished.failure

    def plan(self, *titles: str) -> Any:
        return self.act("plan_setup", objective="Review.", steps=[{"title": title} for title in titles or ("look",)])

    def reflect(self, verdict: str, **more: Any) -> list[ev.AnyEvent]:
        assert self.state.asked == "reflect"
        return self.decide({"verdict": verdict, **more})

    def summarize(self, summary: str = "All is well.", **more: Any) -> list[ev.AnyEvent]:
        assert self.state.asked == "summarize"
        return self.decide({"summary": summary, **more})
