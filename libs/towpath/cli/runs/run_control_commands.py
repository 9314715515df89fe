"""`towpath runs pause|resume|note|gate|confidence`: steer a live run from outside."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from cyclopts import App

from towpath.cli.shared import short_ids
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath_contracts.runs.run_control import RunSteered

_DONE = (Column("run", "run_id"), Column("done", "detail"), Column("gate", "gate_id"))


def add_to(app: App) -> None:
    """Add these commands to `towpath runs`."""
    app.command(
        pause,
        help_epilogue=examples(
            "towpath runs pause 0192f3 --reason 'let me look first'", "towpath runs pause 0192f3 -o json"
        ),
    )
    app.command(
        resume,
        help_epilogue=examples("towpath runs resume 0192f3", "towpath runs resume 0192f3 --reason 'looked at it'"),
    )
    app.command(
        note,
        help_epilogue=examples(
            "towpath runs note 0192f3 'The order is 8813.'", "towpath runs note 0192f3 'The order is 8813.' -o json"
        ),
    )
    app.command(
        gate,
        help_epilogue=examples(
            "towpath runs gate 0192f3 --reason 'is this the right customer?'",
            "towpath runs gate 0192f3 --reason 'is this right?' -o json",
        ),
    )
    app.command(
        confidence, help_epilogue=examples("towpath runs confidence 0192f3", "towpath runs confidence 0192f3 -o json")
    )


async def pause(run: str, /, *, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Pause a run and all below it: nothing more begins, what is under way comes to its end.

    Args:
        run: The run's id, or its beginning or end.
        reason: Why; it stands in the record, and whoever looks at the run reads it.
    """
    await _steer(common, run, "pause", reason)


async def resume(run: str, /, *, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Let a paused run go on, and what was paused with it.

    Args:
        run: The run's id, or its beginning or end.
        reason: Why; it stands in the record.
    """
    await _steer(common, run, "resume", reason)


async def note(run: str, text: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Tell a run something: its model reads it with the next decision that it is asked for.

    Args:
        run: The run's id, or its beginning or end.
        text: What the model is told, at most 2,000 characters.
    """
    await _steer(common, run, "note", text)


async def gate(run: str, /, *, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Put a gate on a run: a person decides how it goes on.

    Args:
        run: The run's id, or its beginning or end.
        reason: What is to be decided.
    """
    await _steer(common, run, "gate", reason)


async def confidence(run: str, /, *, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Ask a goal run how confident its model is, when the step is over.

    Args:
        run: The run's id, or its beginning or end.
        reason: Why; it stands in the record.
    """
    await _steer(common, run, "confidence", reason)


async def _steer(common: ConnectionOptions, run: str, act: str, text: str) -> None:
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        methods: dict[str, Callable[[UUID, str], Awaitable[RunSteered]]] = {
            "pause": client.pause,
            "resume": client.resume,
            "note": client.note,
            "gate": client.gate,
            "confidence": client.check_confidence,
        }
        done = await methods[act](run_id, text)
    common.out().record({"run_id": str(run_id), **done.model_dump(mode="json")}, _DONE)
