"""Broken variants of services: each has one guard turned off, so that it can be shown that the tests bite.

Law: no service knows of this. A mutant exists in a process of its own, started by `tests.chaos.mutated_service` and
by nothing else, and only where crash points may be armed; what it replaces has to be there, with the parameters that it
counts on, or the process ends.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

NO_FENCE: Final = 2**31 - 1
"""A fence that no stored one is newer than."""


class MutantError(Exception):
    """The mutant can't be made: the code is not what it was made for, or this is no place for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One replacement: `place` is `module:name` or `module:Class.name`; `make` gets the original.

    `takes` are parameters of the original that the replacement counts on.
    """

    place: str
    make: Callable[[Any], Any]
    takes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A service without one of its guards. `module` is what `python -m` runs; `figure` is what has to betray it."""

    name: str
    summary: str
    module: str
    figure: str
    patches: tuple[Patch, ...]

    @property
    def role(self) -> str:
        """The role that is broken."""
        return self.module.removeprefix("towpath_")

    @property
    def commands(self) -> dict[str, tuple[str, ...]]:
        """What a `Platform` has to be given as `commands` to run the mutant in place of the service."""
        return {self.role: (sys.executable, "-m", "tests.chaos.mutated_service", self.name, self.module)}


def _fenceless(original: Any) -> Any:
    def decide(*given: Any, **named: Any) -> Any:
        return original(*given, **{**named, "fence": 0})

    return decide


def _fenceless_row(original: Any) -> Any:
    """The ledger's statements compare with the fence of the row that they are given."""

    def row(call: Any) -> Any:
        return original(replace(call, fence=NO_FENCE))

    return row


def _fenceless_change(original: Any) -> Any:
    def row(step: Any) -> Any:
        return original(replace(step, call=replace(step.call, fence=NO_FENCE)))

    return row


def _opened_again(original: Any) -> Any:
    """A request for a call that is in the ledger is taken for a new one."""
    core = importlib.import_module("towpath_tas.core.calls.call")
    taken = {"permitted", "started", "succeeded", "failed"}

    def on_request(call: Any, *given: Any, **named: Any) -> Any:
        if call is None or str(call.status) not in taken:
            return original(call, *given, **named)
        again = call.changed(status=type(call.status)("permitted"), attempt=call.attempt + 1, claims=(), fact=None)
        return core.Step(call=again, effects=(core.Dispatch(call=again),))

    return on_request


def _claimed_again(original: Any) -> Any:
    """A claim that was granted stands in nobody's way."""

    def on_claim(call: Any, *given: Any, **named: Any) -> Any:
        return original(call if call is None else replace(call, claims=()), *given, **named)

    return on_claim


_senders: list[Any] = []
"""The one sender of a mutated tool-access service."""


def _known_sender(original: Any) -> Any:
    def __init__(self: Any, bus: Any, *given: Any, **named: Any) -> None:  # noqa: N807 - it takes the place of one
        original(self, bus, *given, **named)
        _senders.append((self, bus))

    return __init__


def _sent_first(original: Any) -> Any:
    """What a step wants sent goes out, and reaches the broker, before the step is stored."""

    async def _write_group(self: Any, lane: Any, group: Any) -> Any:
        for sender, bus in _senders:
            for entry in group:
                await sender.send(entry.step)
            await bus.nc.flush()
        return await original(self, lane, group)

    return _write_group


def _acknowledged_first(original: Any) -> Any:
    """Facts leave the stream when they are taken."""

    async def _process(self: Any, items: Any) -> Any:
        await self._acknowledge(items)
        for item in items:
            if item.message is not None:
                await item.message._client.flush()
        return await original(self, items)

    return _process


_ALL: Final = (
    Mutant(
        name="no_fence_check",
        summary="requests, claims and outcomes are decided, and stored, whatever fence was raised",
        module="towpath_tas",
        figure="late",
        patches=(
            Patch(place="towpath_tas.core.calls.switch_holds:on_request", make=_fenceless, takes=("fence",)),
            Patch(place="towpath_tas.app.calls.start_claims:on_claim", make=_fenceless, takes=("fence",)),
            Patch(place="towpath_tas.app.calls.tool_outcomes:on_outcome", make=_fenceless, takes=("fence",)),
            Patch(place="towpath_tas.adapters.ledger_tables:_call_row", make=_fenceless_row, takes=("call",)),
            Patch(place="towpath_tas.adapters.ledger_tables:_change_row", make=_fenceless_change, takes=("step",)),
        ),
    ),
    Mutant(
        name="no_ledger_uniqueness",
        summary="an execution may be opened, and claimed, although the ledger has it already",
        module="towpath_tas",
        figure="dup",
        patches=(
            Patch(place="towpath_tas.core.calls.switch_holds:on_request", make=_opened_again, takes=("call",)),
            Patch(place="towpath_tas.app.calls.start_claims:on_claim", make=_claimed_again, takes=("call",)),
        ),
    ),
    Mutant(
        name="ack_before_commit",
        summary="facts are acknowledged before their transition is stored",
        module="towpath_orchestrator",
        figure="differences",
        patches=(
            Patch(
                place="towpath_orchestrator.app.loop.commit_loop:CommitLoop._process",
                make=_acknowledged_first,
                takes=("self", "items"),
            ),
        ),
    ),
    Mutant(
        name="dispatch_before_commit",
        summary="calls are dispatched before the ledger has them",
        module="towpath_tas",
        figure="audit_holes",
        patches=(
            Patch(place="towpath_tas.app.calls.dispatcher:Sender.__init__", make=_known_sender, takes=("bus",)),
            Patch(
                place="towpath_tas.app.calls.ledger_store:Book._write_group", make=_sent_first, takes=("lane", "group")
            ),
        ),
    ),
)

MUTANTS: Final[Mapping[str, Mutant]] = {mutant.name: mutant for mutant in _ALL}
"""Every mutant by name."""


def put_in_place(mutant: Mutant) -> None:
    """Replace in this process what *mutant* replaces; raises MutantError where that is not there any more."""
    for patch in mutant.patches:
        owner, name, original = _find(patch)
        setattr(owner, name, patch.make(original))


def _find(patch: Patch) -> tuple[Any, str, Any]:
    module, _, path = patch.place.partition(":")
    *classes, name = path.split(".")
    try:
        owner = importlib.import_module(module)
        for part in classes:
            owner = getattr(owner, part)
        original = getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise MutantError(f"{patch.place} is not there any more: {error}") from error
    missing = set(patch.takes) - set(inspect.signature(original).parameters)
    if missing:
        raise MutantError(f"{patch.place} does not take {', '.join(sorted(missing))} any more")
    return owner, name, original
