"""`towpath queues dead`: messages that could not be handled, to be sent again or discarded."""

from typing import Literal

from cyclopts import App

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column

app = App(name="queues", help="Look at what the queues could not handle.")
dead = App(name="dead", help="Dead letters: look at them, send them again, throw them away.")
app.command(dead)

_LIST = (
    Column("letter", "dead_letter_id"),
    Column("at", lambda row: str(row["at"])[:19].replace("T", " ")),
    Column("status", "status"),
    Column("stream", "stream"),
    Column("run", "run_id"),
    Column("why", lambda row: row["reason"][:80]),
)
_SHOW = (
    Column("letter", "dead_letter_id"),
    Column("status", "status"),
    Column("at", "at"),
    Column("stream", lambda row: f"{row['stream']} {row['subject']}"),
    Column("project", "project"),
    Column("run", "run_id"),
    Column("effect", "effect_id"),
    Column("why", "reason"),
    Column("failures", "failures"),
    Column("bytes", "size"),
    Column("settled", lambda row: f"{row['settled_at']} {row['settled_by']}" if row["settled_at"] else ""),
    Column("reason", "settled_reason"),
    Column("body", "body"),
)


@dead.command(
    name="list", help_epilogue=examples("towpath queues dead list", "towpath queues dead list --stream INBOX -o json")
)
async def list_letters(
    *,
    status: Literal["dead", "requeued", "discarded"] = "dead",
    stream: str | None = None,
    limit: int = 50,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """List dead letters, newest first.

    Args:
        status: dead, requeued or discarded.
        stream: Only letters of this stream: TASKS, INBOX, DECIDE, TOOLREQ, TOOLEXEC or TOOLOUT.
        limit: How many, at most 200.
    """
    async with common.connect() as client:
        page = await client.dead_letters.list(status=status, stream=stream, limit=limit)
    rows = [letter.model_dump(mode="json", exclude={"body"}) for letter in page.letters]
    common.out().rows("letters", rows, _LIST, empty="There are no such dead letters.")


@dead.command(help_epilogue=examples("towpath queues dead show 17", "towpath queues dead show 17 -o json"))
async def show(letter: int, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show a dead letter with its body.

    Args:
        letter: Its number.
    """
    async with common.connect() as client:
        found = await client.dead_letters.show(letter)
    common.out().record(found.model_dump(mode="json"), _SHOW)


@dead.command(help_epilogue=examples("towpath queues dead requeue 17 --reason 'the worker is repaired'"))
async def requeue(letter: int, /, *, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Put the message back where it came from, once.

    Args:
        letter: Its number.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        done = await client.dead_letters.requeue(letter, reason)
    common.out().record(done.model_dump(mode="json", exclude={"schema_version"}), (Column("done", "detail"),))


@dead.command(help_epilogue=examples("towpath queues dead discard 17 --reason 'sent by a broken script'"))
async def discard(letter: int, /, *, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Settle the letter without sending it; it stays readable.

    Args:
        letter: Its number.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        done = await client.dead_letters.discard(letter, reason)
    common.out().record(done.model_dump(mode="json", exclude={"schema_version"}), (Column("done", "detail"),))
