"""Transitions of runs: what a batch of facts makes of one run, ready to be committed.

    state, facts ──> fold_facts ──> Transition ──> one statement ──┬─> committed: effects are sent, events published
                                                                   └─> refused: the run is read and folded once more

Nothing here reads a clock or a table: time is Postgres's and comes in, texts of workspaces come in with their facts. So
the same facts on the same state give the same events, here and in a replay.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry
from towpath_contracts.facts import AnyFact, InternalToolPermittedFact
from towpath_engine.advance import advance
from towpath_engine.handlers.children import new_child_run
from towpath_engine.handlers.quarantine import quarantine_on_error
from towpath_engine.replay import create
from towpath_engine.requests.effects import OutgoingEffect, TextToStore, message_of, resendable_effects
from towpath_engine.state.run import RunState


class IncomingFact(Protocol):
    """A fact and its JSON text; `is_repeated` says that it may have been folded before, and nothing sent for it."""

    @property
    def fact(self) -> AnyFact: ...

    @property
    def text(self) -> str: ...

    @property
    def is_repeated(self) -> bool: ...


@dataclass(slots=True)
class Transition:
    """One run of a batch: the state it was in, the state it is in, what made the difference.

    `facts` are (first seq, JSON text); `texts` are the JSON texts of `entries`, made once and used twice; `gates` says
    whether any gate was or is open. `before` is the state it was in, None for a run that is new; `children` are the
    first transitions of the children that this one starts, `stored` the texts by digest that its events name.
    `effects` are to be sent once it is committed. `failure` is what the engine raised: the run is parked then.
    """

    before_seq: int
    state: RunState
    entries: list[LogEntry] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    facts: list[tuple[int, str]] = field(default_factory=list)
    gates: bool = False
    before: RunState | None = None
    children: list["Transition"] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)
    effects: list[OutgoingEffect] = field(default_factory=list)
    failure: Exception | None = None

    @property
    def ends_run(self) -> bool:
        """Whether its last event is the end of the run."""
        return self.state.is_final and isinstance(self.entries[-1].event, ev.RunFinished)


def fold_facts(state: RunState, facts: Sequence[IncomingFact], now: datetime) -> Transition:
    """Advance a run by *facts*, in order. Without entries in the result every fact was ignored.

    A fact that the engine can't take parks the run; the facts after it are dropped with it.
    """
    transition = Transition(before_seq=state.seq, state=state, gates=bool(state.gates), before=state)
    wanted: dict[UUID, OutgoingEffect] = {}
    ignored_again = False
    for incoming in facts:
        fact, text = _with_new_texts(incoming, transition.stored)
        try:
            entries, effects, after = advance(transition.state, fact, now)
            texts = [event_text(entry.event) for entry in entries]
            children = child_transitions(after, list(entries), now)
        except Exception as error:  # noqa: BLE001 - whatever the engine raises, this run is parked and the others go on
            _park(transition, text, error, now)
            return transition
        if not entries:
            ignored_again = ignored_again or incoming.is_repeated
            continue
        transition.facts.append((transition.state.seq + 1, text))
        transition.entries.extend(entries)
        transition.texts.extend(texts)
        transition.state = after
        transition.stored.update(texts_to_store(effects))
        transition.children.extend(children)
        transition.gates = transition.gates or bool(after.gates)
        wanted.update({effect.effect.effect_id: effect for effect in effects})
    pending = {p.effect_id for p in transition.state.pending}
    asked = {key: effect for key, effect in wanted.items() if key in pending}
    if ignored_again:  # it was folded before, perhaps without what came of it being sent; these facts want theirs, too
        again = {p.effect_id: message_of(transition.state, p) for p in resendable_effects(transition.state)}
        asked = {**again, **asked}
    transition.effects = list(asked.values())
    return transition


def _park(transition: Transition, text: str, error: Exception, now: datetime) -> None:
    parked = quarantine_on_error(transition.state, error, now)
    transition.facts.append((transition.state.seq + 1, text))
    transition.entries.extend(parked.entries)
    transition.texts.extend(event_text(entry.event) for entry in parked.entries)
    transition.state = parked.state
    transition.failure = error


def _with_new_texts(incoming: IncomingFact, stored: Mapping[str, str]) -> tuple[AnyFact, str]:
    """Give a permitted call also what calls before it have written in the same transition."""
    fact = incoming.fact
    if not stored or not isinstance(fact, InternalToolPermittedFact):
        return fact, incoming.text
    fact = fact.model_copy(update={"contents": {**fact.contents, **stored}})
    return fact, fact.model_dump_json()


def child_transitions(parent: RunState, entries: list[LogEntry], now: datetime) -> list[Transition]:
    """Return the children that *entries* start. They wait as queued runs until there is room for them."""
    children: list[Transition] = []
    for entry in entries:
        if isinstance(entry.event, ev.ChildStarted):
            birth = new_child_run(parent, entry.event)
            state, first = create(birth.child_id, parent.snapshot, birth.task, now)
            children.append(Transition(before_seq=0, state=state, entries=[first], texts=[event_text(first.event)]))
    return children


def texts_to_store(effects: Iterable[OutgoingEffect]) -> dict[str, str]:
    """Return the texts that a transition wants stored, by digest."""
    return {e.message.digest: e.message.text for e in effects if isinstance(e.message, TextToStore)}


def event_text(event: ev.AnyEvent) -> str:
    """Write one event as it is stored and published."""
    return event.model_dump_json()
